import type { JobState, LiveState } from './states.ts';
import { type Transition, transitions } from './transitions.ts';

export type Cancellation =
  | { readonly kind: 'cancel'; readonly transition: Transition<LiveState, 'cancelled', 'cancelled'> }
  /** A running handler is asked to stop; the job is cancelled when it does. */
  | { readonly kind: 'request' }
  /** It has failed and waits for its next attempt, which it will not have. */
  | { readonly kind: 'drop_retry'; readonly transition: Transition<'retrying', 'failed', 'retry_dropped'> }
  | { readonly kind: 'already_complete' };

const ALREADY_COMPLETE: Cancellation = { kind: 'already_complete' };

const ANSWERS = {
  pending: { kind: 'cancel', transition: transitions.pendingToCancelledCancelled() },
  delayed: { kind: 'cancel', transition: transitions.delayedToCancelledCancelled() },
  scheduled: { kind: 'cancel', transition: transitions.scheduledToCancelledCancelled() },
  running: { kind: 'request' },
  retrying: { kind: 'cancel', transition: transitions.retryingToCancelledCancelled() },
  completed: ALREADY_COMPLETE,
  failed: ALREADY_COMPLETE,
  dead_letter: ALREADY_COMPLETE,
  cancelled: ALREADY_COMPLETE,
} as const satisfies Record<JobState, Cancellation>;

// Where a cancellation waits for nobody, a running job ends before its handler does, and one that failed stays failed.
const AT_ONCE = {
  ...ANSWERS,
  running: { kind: 'cancel', transition: transitions.runningToCancelledCancelled() },
  retrying: { kind: 'drop_retry', transition: transitions.retryingToFailedRetryDropped() },
} as const satisfies Record<JobState, Cancellation>;

/** What a request to cancel does to a job in this state, under a policy that cancels at once or not. */
export function decideCancellation(state: JobState, cancelsAtOnce = false): Cancellation {
  return (cancelsAtOnce ? AT_ONCE : ANSWERS)[state];
}
