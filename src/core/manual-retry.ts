import { backoffDelayMs } from './backoff.ts';
import { MAX_ATTEMPTS, type Policy } from './policy.ts';
import type { JobState } from './states.ts';
import { type Transition, transitions } from './transitions.ts';

export interface ManualRetryParams {
  readonly job: { readonly state: JobState; readonly attemptsStarted: number; readonly maxAttempts: number };
  readonly resetAttempts: boolean;
  /** Null uses the delay of the policy. */
  readonly delayMs: number | null;
  /** Set when a manual retry may replace the pending automatic retry: the time until that retry. */
  readonly pendingMs?: number;
  /** The job's policy. Without `retriesByHand` a manual retry extends the limit and starts immediately. */
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
      /** The count of attempts restarts at zero. */
      readonly startsRound: boolean;
      /** The pending automatic retry is dropped first, which makes the job failed. */
      readonly dropsRetry: boolean;
    }
  /** The policy keeps manual retries within the limit, and no attempt is left. */
  | { readonly kind: 'exhausted' }
  /** The retry restarts the lifetime, which would end before the delay does. */
  | { readonly kind: 'beyond_lifetime' }
  | { readonly kind: 'not_retriable'; readonly message: string };

/**
 * Decides a retry that a person asks for. `resetAttempts` starts a new round; otherwise the job gets at least one more attempt.
 * A policy that keeps manual retries within the limit allows neither: it uses the remaining attempts, with their backoff.
 */
export function decideManualRetry(params: ManualRetryParams): ManualRetry {
  const { job, policy } = params;
  const { state } = job;
  const dropsRetry = state === 'retrying' && params.pendingMs !== undefined;
  if (state !== 'failed' && state !== 'dead_letter' && !dropsRetry) {
    return {
      kind: 'not_retriable',
      message: `a job in the state ${state} cannot be retried: only failed and dead_letter jobs can`,
    };
  }
  const isLimited = policy?.retriesByHand === 'within_limit';
  if (isLimited && job.attemptsStarted >= job.maxAttempts) return { kind: 'exhausted' };
  const startsRound = params.resetAttempts && !isLimited;
  const attemptsStarted = startsRound ? 0 : job.attemptsStarted;
  // Attempts that did not count may have raised the limit of the job above the one for a submission.
  const maxAttempts = startsRound ? Math.min(job.maxAttempts, MAX_ATTEMPTS) : Math.max(job.maxAttempts, attemptsStarted + 1);
  if (maxAttempts > MAX_ATTEMPTS && maxAttempts > job.maxAttempts) {
    return { kind: 'not_retriable', message: `the job has had ${MAX_ATTEMPTS} attempts: retry it with resetAttempts` };
  }
  if (params.delayMs !== null && policy?.lifetimeMs != null && params.delayMs >= policy.lifetimeMs) {
    return { kind: 'beyond_lifetime' };
  }
  const delayMs = params.delayMs ?? ownDelayMs(params);
  const transition = retryEdge(state === 'dead_letter' ? state : 'failed', delayMs > 0);
  return { kind: 'queued', transition, attemptsStarted, maxAttempts, delayMs, startsRound, dropsRetry };
}

// Retry n follows attempt n.
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
