export const BACKOFF_STRATEGIES = ['CONSTANT', 'LINEAR', 'EXPONENTIAL', 'CUSTOM'] as const;

export type BackoffStrategy = (typeof BACKOFF_STRATEGIES)[number];

export interface BackoffPolicy {
  readonly strategy: BackoffStrategy;
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  readonly multiplier: number;
  readonly jitter: boolean;
}

/** Supplied by the application: the delay in milliseconds before the given retry (the first retry is 1). */
export type CustomBackoff = (retry: number, initialDelayMs: number, maxDelayMs: number) => number;

export const DEFAULT_BACKOFF: BackoffPolicy = Object.freeze({
  strategy: 'EXPONENTIAL',
  initialDelayMs: 1_000,
  maxDelayMs: 3_600_000,
  multiplier: 2,
  jitter: true,
});

const JITTER_SHARE = 0.1;

export interface BackoffParams {
  readonly policy: BackoffPolicy;
  /** The retry about to be waited for, from 1. */
  readonly retry: number;
  /** In [0, 1); 0.5 means no jitter. */
  readonly random: number;
  /** What the failure itself asked for: a floor that may exceed the policy's maximum. */
  readonly retryAfterMs?: number;
  readonly custom?: CustomBackoff;
}

export interface BackoffDelay {
  readonly delayMs: number;
  /** The custom function threw or gave no usable number, so the exponential delay was taken. */
  readonly customFailed: boolean;
}

export function backoffDelayMs(params: BackoffParams): BackoffDelay {
  const { policy, random, retryAfterMs } = params;
  const custom = policy.strategy === 'CUSTOM' ? customDelayMs(params) : null;
  const base = custom ?? formulaDelayMs(policy, params.retry);
  const capped = Math.min(policy.maxDelayMs, base);
  const spread = policy.jitter ? capped * (1 - JITTER_SHARE + 2 * JITTER_SHARE * random) : capped;
  const delayMs = Math.round(Math.min(policy.maxDelayMs, spread));
  return {
    delayMs: retryAfterMs === undefined ? delayMs : Math.max(delayMs, retryAfterMs),
    customFailed: policy.strategy === 'CUSTOM' && custom === null,
  };
}

function formulaDelayMs(policy: BackoffPolicy, retry: number): number {
  switch (policy.strategy) {
    case 'CONSTANT':
      return policy.initialDelayMs;
    case 'LINEAR':
      return policy.initialDelayMs * retry;
    case 'EXPONENTIAL':
    case 'CUSTOM':
      // Zero times an overflow to Infinity is NaN, so an initial delay of zero is answered first.
      return policy.initialDelayMs === 0 ? 0 : policy.initialDelayMs * policy.multiplier ** (retry - 1);
  }
}

function customDelayMs({ policy, retry, custom }: BackoffParams): number | null {
  if (custom === undefined) return null;
  try {
    const delayMs = custom(retry, policy.initialDelayMs, policy.maxDelayMs);
    return Number.isFinite(delayMs) && delayMs >= 0 ? delayMs : null;
  } catch {
    return null;
  }
}
