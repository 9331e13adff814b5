import { type BackoffDelay, backoffDelayMs, type CustomBackoff } from './backoff.ts';
import { formatDuration } from './duration.ts';
import { CANCELLED_FAILURE, type Failure, LIFETIME_FAILURE } from './failure.ts';
import type { Policy } from './policy.ts';
import { leastWaitMs } from './postponement.ts';
import { type Transition, transitions } from './transitions.ts';

/** How an attempt ended. */
export type Outcome =
  | { readonly kind: 'succeeded' }
  | { readonly kind: 'failed'; readonly failure: Failure }
  | { readonly kind: 'cancelled' }
  /** `wasStalled`: the event loop of the worker's process was blocked. */
  | { readonly kind: 'worker_lost'; readonly wasStalled?: boolean }
  | { readonly kind: 'released' }
  /** The handler returned the job for later. */
  | { readonly kind: 'postponed'; readonly delayMs: number }
  | { readonly kind: 'lifetime_exceeded' };

export interface DecideParams {
  readonly outcome: Outcome;
  readonly job: {
    readonly attemptsStarted: number;
    readonly maxAttempts: number;
    readonly lifetimeDeadlineMs: number | null;
    /** Manual retries that followed a permanent failure. */
    readonly permanentFailures?: number;
  };
  readonly policy: Policy;
  /** In [0, 1), for the jitter. */
  readonly random: number;
  readonly nowMs: number;
  readonly custom?: CustomBackoff;
}

export interface Decision {
  readonly transition: Transition<'running'>;
  /** How long the job waits for its next attempt. */
  readonly delayMs?: number;
  readonly failure?: Failure;
  /** The attempt uses up none of the job's attempts. */
  readonly refundsAttempt?: true;
  /** The custom backoff function failed, so the exponential delay was used. */
  readonly customFailed?: true;
}

type Retryable = 'TEMPORARY' | 'TIMEOUT' | 'SYSTEM';

const WORKER_LOST: Failure = Object.freeze({
  category: 'SYSTEM',
  code: 'WORKER_LOST',
  message: 'the worker stopped sending heartbeats while it ran the job',
});
const WORKER_STALLED: Failure = Object.freeze({
  category: 'SYSTEM',
  code: 'WORKER_LOST',
  message: 'a handler blocked the event loop of the process that ran the job, so its worker was stopped',
});
const WORKER_STOPPED: Failure = Object.freeze({
  category: 'SYSTEM',
  code: 'WORKER_STOPPED',
  message: 'the worker was stopped while it ran the job',
});

const RETRY = {
  TEMPORARY: transitions.runningToRetryingTemporaryFailure,
  TIMEOUT: transitions.runningToRetryingTimedOut,
  SYSTEM: transitions.runningToRetryingSystemFailure,
} as const satisfies Record<Retryable, () => Transition<'running'>>;

const FAIL = {
  TEMPORARY: transitions.runningToFailedTemporaryFailure,
  TIMEOUT: transitions.runningToFailedTimedOut,
  SYSTEM: transitions.runningToFailedSystemFailure,
} as const satisfies Record<Retryable, () => Transition<'running'>>;

/** Where a running job goes when its attempt ends. */
export function decide(params: DecideParams): Decision {
  const { outcome } = params;
  switch (outcome.kind) {
    case 'succeeded':
      return { transition: transitions.runningToCompletedSucceeded() };
    case 'cancelled':
      return { transition: transitions.runningToCancelledCancelled(), failure: CANCELLED_FAILURE };
    case 'lifetime_exceeded':
      return { transition: transitions.runningToDeadLetterLifetimeExceeded(), failure: LIFETIME_FAILURE };
    case 'worker_lost': {
      const failure = outcome.wasStalled === true ? WORKER_STALLED : WORKER_LOST;
      if (params.policy.onOrphan === 'fail') return { transition: transitions.runningToFailedWorkerLost(), failure };
      return retryAtOnce(params, { transition: transitions.runningToRetryingWorkerLost(), failure });
    }
    case 'released':
      return release(params);
    case 'postponed':
      return postpone(params, outcome.delayMs);
    case 'failed':
      return decideFailure(params, outcome.failure);
  }
}

function decideFailure(params: DecideParams, failure: Failure): Decision {
  const { category } = failure;
  if (category === 'PERMANENT') return { transition: permanentEdge(params), failure };
  if (category === 'CANCELLED') return { transition: transitions.runningToCancelledCancelled(), failure };
  if (category === 'TIMEOUT' && failure.code === LIFETIME_FAILURE.code) {
    return { transition: transitions.runningToDeadLetterLifetimeExceeded(), failure };
  }
  if (!mayRetry(params.policy, category)) return { transition: FAIL[category](), failure };
  const refund = failure.countsAsAttempt === false ? ({ refundsAttempt: true } as const) : {};
  if (refund.refundsAttempt === undefined && isExhausted(params)) {
    return { transition: transitions.runningToDeadLetterAttemptsExhausted(), failure };
  }
  const backoff = backoffOf(params, failure);
  const delayMs = refund.refundsAttempt ? Math.max(backoff.delayMs, leastWaitMs(params.job.attemptsStarted)) : backoff.delayMs;
  if (wouldOutlive(params, delayMs)) return { transition: transitions.runningToDeadLetterLifetimeExceeded(), failure };
  const decision: Decision = { transition: RETRY[category](), delayMs, failure, ...refund };
  return backoff.customFailed ? { ...decision, customFailed: true } : decision;
}

/** A governed job that fails permanently again after a manual retry is poison: another retry by hand would not help. */
function permanentEdge({ job, policy: { poisonAfter = Number.POSITIVE_INFINITY } }: DecideParams): Transition<'running'> {
  const failures = (job.permanentFailures ?? 0) + 1;
  return failures >= poisonAfter && failures > 1 ? transitions.runningToDeadLetterPoison() : transitions.runningToFailedPermanentFailure();
}

// The handler may have made progress, so the attempt counts; it did not fail, so there is no backoff.
function retryAtOnce(params: DecideParams, retry: { transition: Transition<'running'>; failure: Failure }): Decision {
  if (isExhausted(params)) {
    return { transition: transitions.runningToDeadLetterAttemptsExhausted(), failure: retry.failure };
  }
  if (wouldOutlive(params, 0)) {
    return { transition: transitions.runningToDeadLetterLifetimeExceeded(), failure: retry.failure };
  }
  return { ...retry, delayMs: 0 };
}

// A clean shutdown uses up no attempt, so only the lifetime limits how often a job is released.
function release(params: DecideParams): Decision {
  if (wouldOutlive(params, 0)) {
    return { transition: transitions.runningToDeadLetterLifetimeExceeded(), failure: WORKER_STOPPED };
  }
  return { transition: transitions.runningToRetryingReleased(), failure: WORKER_STOPPED, delayMs: 0, refundsAttempt: true };
}

function postpone(params: DecideParams, wantedMs: number): Decision {
  const delayMs = Math.max(wantedMs, leastWaitMs(params.job.attemptsStarted));
  if (!wouldOutlive(params, delayMs)) return { transition: transitions.runningToRetryingPostponed(), delayMs, refundsAttempt: true };
  const message = `the handler postponed the job by ${formatDuration(delayMs)}, which is beyond the end of its lifetime`;
  return { transition: transitions.runningToDeadLetterLifetimeExceeded(), failure: { ...LIFETIME_FAILURE, message } };
}

function mayRetry(policy: Policy, category: Retryable): boolean {
  if (!policy.autoRetry) return false;
  if (category === 'TIMEOUT') return policy.retryOnTimeout;
  return category === 'TEMPORARY' || policy.retryOnSystem;
}

function isExhausted({ job }: DecideParams): boolean {
  return job.attemptsStarted >= job.maxAttempts;
}

function wouldOutlive({ job, nowMs }: DecideParams, delayMs: number): boolean {
  return job.lifetimeDeadlineMs !== null && nowMs + delayMs > job.lifetimeDeadlineMs;
}

function backoffOf({ job, policy, random, custom }: DecideParams, failure: Failure): BackoffDelay {
  return backoffDelayMs({
    policy: policy.backoff,
    // Retry n follows attempt n. Attempts that did not count raised the limit of the job above that of its policy.
    retry: Math.max(1, job.attemptsStarted - Math.max(0, job.maxAttempts - policy.maxAttempts)),
    random,
    retryAfterMs: failure.retryAfterMs,
    custom,
  });
}
