import { pauseMs } from './backoff.ts';

export type BreakerPolicy = {
  /** Failed attempts in a row after which the breaker opens. */
  readonly threshold: number;
  /** The first pause; each further failure doubles it. */
  readonly initialMs: number;
  readonly maxMs: number;
};

/** A target with fewer failures than this is never disabled, however long ago the first one was. */
const DISABLE_AFTER_FAILURES = 10;

/** The recent failures of a target. `nextAtMs` is set while the breaker is open. */
export type Health = {
  readonly failures: number;
  readonly failingSinceMs: number | null;
  readonly nextAtMs: number | null;
};

const HEALTHY: Health = Object.freeze({ failures: 0, failingSinceMs: null, nextAtMs: null });

type Attempt = { readonly isDelivered: boolean; readonly nowMs: number };

/** The first delivery after `nextAtMs` probes the target. A success closes the breaker. */
export function breakerAfter(health: Health, attempt: Attempt, policy: BreakerPolicy): Health {
  if (attempt.isDelivered) return HEALTHY;
  const failures = health.failures + 1;
  const openMs = pauseMs({ firstMs: policy.initialMs, maxMs: policy.maxMs }, failures - 1, 1);
  return {
    failures,
    failingSinceMs: health.failingSinceMs ?? attempt.nowMs,
    nextAtMs: failures < policy.threshold ? null : attempt.nowMs + openMs,
  };
}

/**
 * Like `breakerAfter`, but for the callbacks of an origin, which run concurrently. If a request fails while the breaker is open, it was
 * already in flight when the breaker opened, so its failure does not count.
 */
export function originBreakerAfter(health: Health, attempt: Attempt, policy: BreakerPolicy): Health {
  const isOpen = health.nextAtMs !== null && attempt.nowMs < health.nextAtMs;
  return isOpen && !attempt.isDelivered ? health : breakerAfter(health, attempt, policy);
}

type Limit = { readonly nowMs: number; readonly disableAfterMs: number };

/** Whether a target has failed for so long that it should be disabled. */
export function isHopeless({ failures, failingSinceMs }: Health, { nowMs, disableAfterMs }: Limit): boolean {
  return failures >= DISABLE_AFTER_FAILURES && failingSinceMs !== null && nowMs - failingSinceMs >= disableAfterMs;
}
