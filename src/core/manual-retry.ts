import { MAX_ATTEMPTS } from './policy.ts';
import type { JobState } from './states.ts';
import { type Transition, transitions } from './transitions.ts';

export interface ManualRetryParams {
  readonly job: { readonly state: JobState; readonly attemptsStarted: number; readonly maxAttempts: number };
  readonly resetAttempts: boolean;
  readonly delayMs: number;
}

export type ManualRetry =
  | {
      readonly kind: 'queued';
      readonly transition: Transition<'failed' | 'dead_letter', 'scheduled' | 'delayed'>;
      readonly attemptsStarted: number;
      readonly maxAttempts: number;
    }
  | { readonly kind: 'not_retriable'; readonly message: string };

/** A retry that a person asks for: a new round with `resetAttempts`, otherwise at least one more attempt. */
export function decideManualRetry({ job, resetAttempts, delayMs }: ManualRetryParams): ManualRetry {
  const { state } = job;
  if (state !== 'failed' && state !== 'dead_letter') {
    return {
      kind: 'not_retriable',
      message: `a job that is ${state} cannot be retried: only failed and dead_letter can`,
    };
  }
  const attemptsStarted = resetAttempts ? 0 : job.attemptsStarted;
  const maxAttempts = Math.max(job.maxAttempts, attemptsStarted + 1);
  if (maxAttempts > MAX_ATTEMPTS) {
    return { kind: 'not_retriable', message: `the job has had ${MAX_ATTEMPTS} attempts: retry it with resetAttempts` };
  }
  return { kind: 'queued', transition: retryEdge(state, delayMs > 0), attemptsStarted, maxAttempts };
}

function retryEdge(state: 'failed' | 'dead_letter', isLater: boolean) {
  if (state === 'failed') {
    return isLater ? transitions.failedToDelayedManualRetry() : transitions.failedToScheduledManualRetry();
  }
  return isLater ? transitions.deadLetterToDelayedManualRetry() : transitions.deadLetterToScheduledManualRetry();
}
