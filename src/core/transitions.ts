import type { JobState } from './states.ts';

export const REASONS = [
  'submitted',
  'dependencies_met',
  'dependency_failed',
  'dependency_dead_letter',
  'dependency_cancelled',
  'chain_stopped',
  'delay_elapsed',
  'started',
  'succeeded',
  'permanent_failure',
  'child_failed',
  'temporary_failure',
  'timed_out',
  'system_failure',
  'worker_lost',
  'released',
  'postponed',
  'attempts_exhausted',
  'poison',
  'lifetime_exceeded',
  'backoff_elapsed',
  'retry_dropped',
  'manual_retry',
  'retry_undone',
  'cancelled',
  'replaced',
] as const;

export type Reason = (typeof REASONS)[number];

const NOWHERE = {
  pending: [],
  delayed: [],
  scheduled: [],
  running: [],
  retrying: [],
  completed: [],
  failed: [],
  dead_letter: [],
  cancelled: [],
} as const satisfies Record<JobState, readonly Reason[]>;

const TABLE = {
  pending: {
    ...NOWHERE,
    scheduled: ['submitted', 'dependencies_met'],
    delayed: ['submitted', 'dependencies_met'],
    failed: ['dependency_failed', 'chain_stopped'],
    dead_letter: ['dependency_dead_letter', 'chain_stopped', 'lifetime_exceeded'],
    cancelled: ['dependency_cancelled', 'chain_stopped', 'cancelled', 'replaced'],
  },
  delayed: {
    ...NOWHERE,
    scheduled: ['delay_elapsed'],
    failed: ['retry_undone'],
    dead_letter: ['lifetime_exceeded', 'retry_undone'],
    cancelled: ['cancelled', 'replaced'],
  },
  scheduled: {
    ...NOWHERE,
    running: ['started'],
    failed: ['retry_undone'],
    dead_letter: ['lifetime_exceeded', 'retry_undone'],
    cancelled: ['cancelled', 'replaced'],
  },
  running: {
    ...NOWHERE,
    completed: ['succeeded'],
    // A permanent failure and a failed child end every job. The other reasons end jobs whose profile has no automatic retry.
    failed: ['permanent_failure', 'child_failed', 'worker_lost', 'temporary_failure', 'timed_out', 'system_failure'],
    retrying: ['temporary_failure', 'timed_out', 'system_failure', 'worker_lost', 'released', 'postponed'],
    dead_letter: ['attempts_exhausted', 'lifetime_exceeded', 'poison'],
    cancelled: ['cancelled'],
  },
  retrying: {
    ...NOWHERE,
    scheduled: ['backoff_elapsed', 'released', 'worker_lost'],
    failed: ['retry_dropped'],
    dead_letter: ['lifetime_exceeded'],
    cancelled: ['cancelled', 'replaced'],
  },
  completed: NOWHERE,
  failed: { ...NOWHERE, scheduled: ['manual_retry'], delayed: ['manual_retry'] },
  dead_letter: { ...NOWHERE, scheduled: ['manual_retry'], delayed: ['manual_retry'] },
  cancelled: NOWHERE,
} as const satisfies Record<JobState, Record<JobState, readonly Reason[]>>;

/** The reasons for which a job may move from one state to another. An empty list means that the move is illegal. */
export const TRANSITIONS: Record<JobState, Record<JobState, readonly Reason[]>> = TABLE;

export interface Transition<From extends JobState = JobState, To extends JobState = JobState, Why = Reason> {
  readonly from: From;
  readonly to: To;
  readonly reason: Why;
}

// The type requires the reason to be in the table, so a constructor for an illegal transition does not compile.
function edge<From extends JobState, To extends JobState, Why extends (typeof TABLE)[From][To][number] & Reason>(
  from: From,
  to: To,
  reason: Why,
): () => Transition<From, To, Why> {
  const transition = Object.freeze({ from, to, reason });
  return () => transition;
}

/** One constructor for each legal transition and reason, named `<from>To<To><Reason>`. */
export const transitions = {
  pendingToScheduledSubmitted: edge('pending', 'scheduled', 'submitted'),
  pendingToScheduledDependenciesMet: edge('pending', 'scheduled', 'dependencies_met'),
  pendingToDelayedSubmitted: edge('pending', 'delayed', 'submitted'),
  pendingToDelayedDependenciesMet: edge('pending', 'delayed', 'dependencies_met'),
  pendingToFailedDependencyFailed: edge('pending', 'failed', 'dependency_failed'),
  pendingToFailedChainStopped: edge('pending', 'failed', 'chain_stopped'),
  pendingToDeadLetterDependencyDeadLetter: edge('pending', 'dead_letter', 'dependency_dead_letter'),
  pendingToDeadLetterChainStopped: edge('pending', 'dead_letter', 'chain_stopped'),
  pendingToDeadLetterLifetimeExceeded: edge('pending', 'dead_letter', 'lifetime_exceeded'),
  pendingToCancelledDependencyCancelled: edge('pending', 'cancelled', 'dependency_cancelled'),
  pendingToCancelledChainStopped: edge('pending', 'cancelled', 'chain_stopped'),
  pendingToCancelledCancelled: edge('pending', 'cancelled', 'cancelled'),
  pendingToCancelledReplaced: edge('pending', 'cancelled', 'replaced'),
  delayedToScheduledDelayElapsed: edge('delayed', 'scheduled', 'delay_elapsed'),
  delayedToFailedRetryUndone: edge('delayed', 'failed', 'retry_undone'),
  delayedToDeadLetterLifetimeExceeded: edge('delayed', 'dead_letter', 'lifetime_exceeded'),
  delayedToDeadLetterRetryUndone: edge('delayed', 'dead_letter', 'retry_undone'),
  delayedToCancelledCancelled: edge('delayed', 'cancelled', 'cancelled'),
  delayedToCancelledReplaced: edge('delayed', 'cancelled', 'replaced'),
  scheduledToRunningStarted: edge('scheduled', 'running', 'started'),
  scheduledToFailedRetryUndone: edge('scheduled', 'failed', 'retry_undone'),
  scheduledToDeadLetterLifetimeExceeded: edge('scheduled', 'dead_letter', 'lifetime_exceeded'),
  scheduledToDeadLetterRetryUndone: edge('scheduled', 'dead_letter', 'retry_undone'),
  scheduledToCancelledCancelled: edge('scheduled', 'cancelled', 'cancelled'),
  scheduledToCancelledReplaced: edge('scheduled', 'cancelled', 'replaced'),
  runningToCompletedSucceeded: edge('running', 'completed', 'succeeded'),
  runningToFailedPermanentFailure: edge('running', 'failed', 'permanent_failure'),
  runningToFailedChildFailed: edge('running', 'failed', 'child_failed'),
  runningToFailedWorkerLost: edge('running', 'failed', 'worker_lost'),
  runningToFailedTemporaryFailure: edge('running', 'failed', 'temporary_failure'),
  runningToFailedTimedOut: edge('running', 'failed', 'timed_out'),
  runningToFailedSystemFailure: edge('running', 'failed', 'system_failure'),
  runningToRetryingTemporaryFailure: edge('running', 'retrying', 'temporary_failure'),
  runningToRetryingTimedOut: edge('running', 'retrying', 'timed_out'),
  runningToRetryingSystemFailure: edge('running', 'retrying', 'system_failure'),
  runningToRetryingWorkerLost: edge('running', 'retrying', 'worker_lost'),
  runningToRetryingReleased: edge('running', 'retrying', 'released'),
  runningToRetryingPostponed: edge('running', 'retrying', 'postponed'),
  runningToDeadLetterAttemptsExhausted: edge('running', 'dead_letter', 'attempts_exhausted'),
  runningToDeadLetterLifetimeExceeded: edge('running', 'dead_letter', 'lifetime_exceeded'),
  runningToDeadLetterPoison: edge('running', 'dead_letter', 'poison'),
  runningToCancelledCancelled: edge('running', 'cancelled', 'cancelled'),
  retryingToScheduledBackoffElapsed: edge('retrying', 'scheduled', 'backoff_elapsed'),
  retryingToScheduledReleased: edge('retrying', 'scheduled', 'released'),
  retryingToScheduledWorkerLost: edge('retrying', 'scheduled', 'worker_lost'),
  retryingToFailedRetryDropped: edge('retrying', 'failed', 'retry_dropped'),
  retryingToDeadLetterLifetimeExceeded: edge('retrying', 'dead_letter', 'lifetime_exceeded'),
  retryingToCancelledCancelled: edge('retrying', 'cancelled', 'cancelled'),
  retryingToCancelledReplaced: edge('retrying', 'cancelled', 'replaced'),
  failedToScheduledManualRetry: edge('failed', 'scheduled', 'manual_retry'),
  failedToDelayedManualRetry: edge('failed', 'delayed', 'manual_retry'),
  deadLetterToScheduledManualRetry: edge('dead_letter', 'scheduled', 'manual_retry'),
  deadLetterToDelayedManualRetry: edge('dead_letter', 'delayed', 'manual_retry'),
} as const;
