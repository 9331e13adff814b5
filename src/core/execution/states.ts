import type { Failure } from '../failure.ts';
import type { Job } from '../job.ts';
import { publicMessage } from '../public-failure.ts';
import { JOB_STATES, type JobState } from '../states.ts';

export const EXECUTION_STATES = ['CREATED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED'] as const;

export type ExecutionState = (typeof EXECUTION_STATES)[number];

export const EXECUTION_OUTCOMES = ['SUCCESS', 'FAILED', 'CANCELED'] as const;

export type ExecutionOutcome = (typeof EXECUTION_OUTCOMES)[number];

/** The ten changes of state that the execution API allows. */
const TRANSITIONS: Readonly<Record<ExecutionState, readonly ExecutionState[]>> = {
  CREATED: ['QUEUED', 'CANCELED'],
  QUEUED: ['ASSIGNED', 'CANCELED'],
  ASSIGNED: ['RUNNING', 'CANCELED'],
  RUNNING: ['SUCCEEDED', 'FAILED', 'CANCELED'],
  SUCCEEDED: [],
  FAILED: ['QUEUED'],
  CANCELED: [],
};

export function isAllowed(from: ExecutionState, to: ExecutionState): boolean {
  return TRANSITIONS[from].includes(to);
}

// Total, so that every new core state must get a name here. Two core states have two names each.
const WORDS = {
  pending: ['CREATED'],
  delayed: ['CREATED', 'QUEUED'],
  scheduled: ['QUEUED', 'ASSIGNED'],
  running: ['RUNNING'],
  retrying: ['FAILED'],
  completed: ['SUCCEEDED'],
  failed: ['FAILED'],
  dead_letter: ['FAILED'],
  cancelled: ['CANCELED'],
} as const satisfies Record<JobState, readonly [ExecutionState, ExecutionState?]>;

type StateFacts = Pick<Job, 'state' | 'attemptsStarted'> & { readonly isLeased: boolean };

/** The core has no state for a claimed job (a worker has its lease) or for a retry by hand that waits for its backoff. */
export function executionStateOf({ state, attemptsStarted, isLeased }: StateFacts): ExecutionState {
  if (state === 'delayed') return WORDS.delayed[attemptsStarted > 0 ? 1 : 0];
  if (state === 'scheduled') return WORDS.scheduled[isLeased ? 1 : 0];
  return WORDS[state][0];
}

const OUTCOMES: Readonly<Record<ExecutionState, ExecutionOutcome | null>> = {
  CREATED: null,
  QUEUED: null,
  ASSIGNED: null,
  RUNNING: null,
  SUCCEEDED: 'SUCCESS',
  FAILED: 'FAILED',
  CANCELED: 'CANCELED',
};

export function outcomeOf(state: ExecutionState): ExecutionOutcome | null {
  return OUTCOMES[state];
}

/** Every core state that can be shown as the given state. A search filters by these, then checks each job it found. */
export function coreStatesOf(state: ExecutionState): readonly JobState[] {
  return JOB_STATES.filter((core) => (WORDS[core] as readonly ExecutionState[]).includes(state));
}

export type ExecutionFailure = {
  readonly code: string;
  readonly message: string;
  /** Whether another attempt at the same work may succeed. */
  readonly retryable: boolean;
};

/** The failure of an attempt as the execution API shows it: without its stack trace, and without paths of the server. */
export function failureOf(failure: Failure | null): ExecutionFailure | null {
  if (failure === null) return null;
  const { category, code, message } = failure;
  return {
    code: code === 'EXECUTION_TIMEOUT' ? 'RFA_EXEC_TIMEOUT' : code,
    message: publicMessage({ code, message }),
    retryable: category === 'TEMPORARY' || category === 'TIMEOUT' || category === 'SYSTEM',
  };
}
