import { backoffDelayMs } from './backoff.ts';
import { MAX_ATTEMPTS, type Policy } from './policy.ts';
import type { JobState } from './states.ts';
import { type Transition, transitions } from './transitions.ts';

export interface ManualRetryParams {
  readonly job: { readonly state: JobState; readonly attemptsStarted: number; readonly maxAttempts: number };
  readonly resetAttempts: boolean;
  /** Null: as the policy says. */
  readonly delayMs: number | null;
  /**
   * How long a job waits that is to be tried again by itself, where a retry by hand may stand in for that one: it is begun
   * when the other would have been.
   */
  readonly pendingMs?: number;
  /** Of the job. Without `retriesByHand` a retry by hand extends the limit and waits for nothing. */
  readonly policy?: Partial<Pick<Policy, 'retriesByHand' | 'lifetimeMs'>> & Pick<Policy, 'backoff'>;
  /** In [0, 1), for the jitter. */
  readonly random?: number;
}

export type ManualRetry =
  | {
      readonly kind: 'queued';
      readonly transition: Transition<'failed' | 'dead_letter', 'scheduled' | 'delayed'>;
      readonly attemptsStarted: number;
      readonly maxAttempts: number;
      readonly delayMs: number;
      /** The attempts are counted anew. */
      readonly startsRound: boolean;
      /** The retry that was to come by itself is dropped first, and the job has failed then. */
      readonly dropsRetry: boolean;
    }
  /** Failed, and with no attempt left that a retry within the limit could take. */
  | { readonly kind: 'exhausted' }
  /** The lifetime begins anew with the retry, and would end before the delay does. */
  | { readonly kind: 'beyond_lifetime' }
  | { readonly kind: 'not_retriable'; readonly message: string };

/**
 * A retry that a person asks for: a new round with `resetAttempts`, otherwise at least one more attempt. Where the policy keeps
 * retries by hand within the limit, neither is to be had: the attempts that are left, and the backoff before each.
 */
export function decideManualRetry(params: ManualRetryParams): ManualRetry {
  const { job, policy } = params;
  const { state } = job;
  const dropsRetry = state === 'retrying' && params.pendingMs !== undefined;
  if (state !== 'failed' && state !== 'dead_letter' && !dropsRetry) {
    return {
      kind: 'not_retriable',
      message: `a job that is ${state} cannot be retried: only failed and dead_letter can`,
    };
  }
  const isLimited = policy?.retriesByHand === 'within_limit';
  if (isLimited && job.attemptsStarted >= job.maxAttempts) return { kind: 'exhausted' };
  const startsRound = params.resetAttempts && !isLimited;
  const attemptsStarted = startsRound ? 0 : job.attemptsStarted;
  const maxAttempts = Math.max(job.maxAttempts, attemptsStarted + 1);
  if (maxAttempts > MAX_ATTEMPTS) {
    return { kind: 'not_retriable', message: `the job has had ${MAX_ATTEMPTS} attempts: retry it with resetAttempts` };
  }
  if (params.delayMs !== null && policy?.lifetimeMs != null && params.delayMs >= policy.lifetimeMs) {
    return { kind: 'beyond_lifetime' };
  }
  const delayMs = params.delayMs ?? ownDelayMs(params);
  const transition = retryEdge(state === 'dead_letter' ? state : 'failed', delayMs > 0);
  return { kind: 'queued', transition, attemptsStarted, maxAttempts, delayMs, startsRound, dropsRetry };
}

// A retry is numbered by the attempts that went before it.
function ownDelayMs({ job, policy, pendingMs, random = 0.5 }: ManualRetryParams): number {
  if (job.state === 'retrying') return Math.max(0, pendingMs ?? 0);
  if (policy?.retriesByHand !== 'within_limit') return 0;
  return backoffDelayMs({ policy: policy.backoff, retry: Math.max(1, job.attemptsStarted), random }).delayMs;
}

function retryEdge(state: 'failed' | 'dead_letter', isLater: boolean) {
  if (state === 'failed') {
    return isLater ? transitions.failedToDelayedManualRetry() : transitions.failedToScheduledManualRetry();
  }
  return isLater ? transitions.deadLetterToDelayedManualRetry() : transitions.deadLetterToScheduledManualRetry();
}
