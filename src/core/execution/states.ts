import type { Job } from '../job.ts';
import { JOB_STATES, type JobState } from '../states.ts';

export const EXECUTION_STATES = [
  'CREATED',
  'QUEUED',
  'ASSIGNED',
  'RUNNING',
  'SUCCEEDED',
  'FAILED',
  'CANCELED',
] as const;

export type ExecutionState = (typeof EXECUTION_STATES)[number];

export const EXECUTION_OUTCOMES = ['SUCCESS', 'FAILED', 'CANCELED'] as const;

export type ExecutionOutcome = (typeof EXECUTION_OUTCOMES)[number];

/** The ten changes of state this surface knows; every other pair is forbidden. */
export const FR_TRANSITIONS: Readonly<Record<ExecutionState, readonly ExecutionState[]>> = Object.freeze({
  CREATED: ['QUEUED', 'CANCELED'],
  QUEUED: ['ASSIGNED', 'CANCELED'],
  ASSIGNED: ['RUNNING', 'CANCELED'],
  RUNNING: ['SUCCEEDED', 'FAILED', 'CANCELED'],
  SUCCEEDED: [],
  FAILED: ['QUEUED'],
  CANCELED: [],
});

export function isAllowed(from: ExecutionState, to: ExecutionState): boolean {
  return FR_TRANSITIONS[from].includes(to);
}

// Total, so that a core state cannot be added without a word here. Two of them read differently in some jobs.
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

type Lived = Pick<Job, 'state' | 'attemptsStarted'> & { readonly isLeased: boolean };

/** A claim is a lease and a wait between attempts is a wait in the queue: neither is a state of its own in the core. */
export function executionStateOf({ state, attemptsStarted, isLeased }: Lived): ExecutionState {
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

/** Null while the state is not final. */
export function outcomeOf(state: ExecutionState): ExecutionOutcome | null {
  return OUTCOMES[state];
}

/** The core states in which a job may read as the given one: for a search, whose finds are looked at once more. */
export function coreStatesOf(state: ExecutionState): readonly JobState[] {
  return JOB_STATES.filter((core) => (WORDS[core] as readonly ExecutionState[]).includes(state));
}
