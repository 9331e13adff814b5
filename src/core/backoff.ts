export const BACKOFF_STRATEGIES = ['CONSTANT', 'LINEAR', 'EXPONENTIAL', 'CUSTOM'] as const;

export type BackoffStrategy = (typeof BACKOFF_STRATEGIES)[number];

/** How long a job waits before each retry. */
export interface BackoffPolicy {
  /** How the delay grows from one retry to the next. */
  readonly strategy: BackoffStrategy;
  /** The delay before the first retry. */
  readonly initialDelayMs: number;
  /** The longest delay. */
  readonly maxDelayMs: number;
  /** The factor between two delays of the exponential strategy. */
  readonly multiplier: number;
  /** Whether delays vary randomly, so that jobs that failed together are not retried together. */
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
      return grownMs(policy.initialDelayMs, retry - 1, policy.multiplier);
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

// Zero times an overflow to Infinity is NaN, so a first delay of zero is handled first.
const grownMs = (firstMs: number, failures: number, multiplier: number): number => (firstMs === 0 ? 0 : firstMs * multiplier ** failures);

/** A delay that doubles with each failure up to a limit. */
export interface Pause {
  readonly firstMs: number;
  readonly maxMs: number;
  /** `full` picks a delay between zero and the computed one; `half` picks from its upper half. Without it, the delay is exact. */
  readonly jitter?: 'full' | 'half';
}

/** Every delay that the program itself takes before it repeats work. The delays of jobs come from their policies instead. */
export const PAUSES = {
  /** A statement lost a race inside the database and is repeated on the spot. */
  lostRace: { firstMs: 20, maxMs: 80, jitter: 'full' },
  /** The database failed a statement that a worker must repeat until it succeeds. */
  databaseFailed: { firstMs: 50, maxMs: 2_000, jitter: 'full' },
  /** Like `databaseFailed`, but the failure is unlikely to end soon. */
  databaseRefuses: { firstMs: 50, maxMs: 30_000, jitter: 'full' },
  /** The result of a webhook call could not be written. */
  deliveryNotWritten: { firstMs: 50, maxMs: 1_000, jitter: 'full' },
  /** A round of a loop failed. */
  roundFailed: { firstMs: 100, maxMs: 5_000, jitter: 'full' },
  /** Another transaction holds a key or a row that a request needs. */
  requestHeld: { firstMs: 20, maxMs: 200, jitter: 'half' },
  /** Another transaction holds the row of a job whose outcome is to be written. */
  outcomeHeld: { firstMs: 50, maxMs: 1_000, jitter: 'half' },
  /** A notification could not be sent. */
  notificationFailed: { firstMs: 50, maxMs: 5_000, jitter: 'half' },
  /** The rescue of one worker's jobs failed. */
  rescueFailed: { firstMs: 1_000, maxMs: 30_000, jitter: 'half' },
  /** Upkeep of one item failed; the other items go on. */
  itemFailed: { firstMs: 1_000, maxMs: 300_000, jitter: 'half' },
  /** Items of an operation that is being undone are held, or their statements take too long. */
  undoHeld: { firstMs: 200, maxMs: 10_000, jitter: 'half' },
  /** The embedded PostgreSQL ended and could not be started again. */
  restartFailed: { firstMs: 250, maxMs: 30_000, jitter: 'half' },
  /** A proxy failed several times in a row, and again after each return. One that works again is used within a minute. */
  proxyEjected: { firstMs: 2_000, maxMs: 45_000 },
} as const satisfies Record<string, Pause>;

/** The longest delay is `firstMs` for 0 failures and doubles with each. `random` is in [0, 1). */
export function pauseMs({ firstMs, maxMs, jitter }: Pause, failures: number, random: number): number {
  const longestMs = Math.min(maxMs, grownMs(firstMs, failures, 2));
  if (jitter === undefined) return longestMs;
  return longestMs * (jitter === 'full' ? random : 0.5 + random / 2);
}
