import { pauseMs } from './backoff.ts';

export type BreakerPolicy = {
  /** After so many failed attempts in a row the next delivery waits. */
  readonly threshold: number;
  /** How long, for the first failure; each further one doubles it. */
  readonly initialMs: number;
  readonly maxMs: number;
};

/** A target that was hardly called is not hopeless however long ago it failed. */
const DISABLE_AFTER_FAILURES = 10;

/** How a target has been answering. */
export type Health = {
  readonly failures: number;
  readonly failingSinceMs: number | null;
  readonly nextAtMs: number | null;
};

export const HEALTHY: Health = Object.freeze({ failures: 0, failingSinceMs: null, nextAtMs: null });

/** The breaker opens by itself: the first delivery after `nextAtMs` is the probe, and a success closes it. */
export function breakerAfter(
  health: Health,
  attempt: { readonly isDelivered: boolean; readonly nowMs: number },
  policy: BreakerPolicy,
): Health {
  if (attempt.isDelivered) return HEALTHY;
  const failures = health.failures + 1;
  return {
    failures,
    failingSinceMs: health.failingSinceMs ?? attempt.nowMs,
    nextAtMs: failures < policy.threshold ? null : attempt.nowMs + waitMs(failures, policy),
  };
}

/**
 * The same for the callbacks of an origin, of which several are called at once: what fails while the breaker is open was under way
 * when it opened, and says nothing more.
 */
export function originBreakerAfter(
  health: Health,
  attempt: { readonly isDelivered: boolean; readonly nowMs: number },
  policy: BreakerPolicy,
): Health {
  const isOpen = health.nextAtMs !== null && attempt.nowMs < health.nextAtMs;
  return isOpen && !attempt.isDelivered ? health : breakerAfter(health, attempt, policy);
}

/** Whether a target has been failing for so long that it is to be left alone. */
export function isHopeless(
  health: Health,
  { nowMs, disableAfterMs }: { nowMs: number; disableAfterMs: number },
): boolean {
  const { failures, failingSinceMs } = health;
  return failures >= DISABLE_AFTER_FAILURES && failingSinceMs !== null && nowMs - failingSinceMs >= disableAfterMs;
}

function waitMs(failures: number, { initialMs, maxMs }: BreakerPolicy): number {
  return pauseMs({ firstMs: initialMs, maxMs }, failures - 1, 1);
}
