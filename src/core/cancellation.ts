import type { JobState, LiveState } from './states.ts';
import { type Transition, transitions } from './transitions.ts';

export type Cancellation =
  | { readonly kind: 'cancel'; readonly transition: Transition<LiveState, 'cancelled', 'cancelled'> }
  /** The handler is asked to stop; the job becomes cancelled when it has stopped. */
  | { readonly kind: 'request' }
  /** The job waits for its next attempt, which is dropped. */
  | { readonly kind: 'drop_retry'; readonly transition: Transition<'retrying', 'failed', 'retry_dropped'> }
  | { readonly kind: 'already_complete' };

const ALREADY_COMPLETE: Cancellation = { kind: 'already_complete' };

const AFTER_THE_HANDLER = {
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

// The job does not wait for its handler to stop, and a job whose last attempt failed ends as failed.
const AT_ONCE = {
  ...AFTER_THE_HANDLER,
  running: { kind: 'cancel', transition: transitions.runningToCancelledCancelled() },
  retrying: { kind: 'drop_retry', transition: transitions.retryingToFailedRetryDropped() },
} as const satisfies Record<JobState, Cancellation>;

/** What a request to cancel does to a job in this state. */
export function decideCancellation(state: JobState, cancelsAtOnce: boolean): Cancellation {
  return (cancelsAtOnce ? AT_ONCE : AFTER_THE_HANDLER)[state];
}
