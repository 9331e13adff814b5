/** All states of a job. */
export const JOB_STATES = [
  'pending',
  'delayed',
  'scheduled',
  'running',
  'retrying',
  'completed',
  'failed',
  'dead_letter',
  'cancelled',
] as const;

/** The state of a job. */
export type JobState = (typeof JOB_STATES)[number];

// A total record, so that adding a state requires a decision whether it ends the job.
const ENDS_THE_JOB = {
  pending: false,
  delayed: false,
  scheduled: false,
  running: false,
  retrying: false,
  completed: true,
  failed: true,
  dead_letter: true,
  cancelled: true,
} as const satisfies Record<JobState, boolean>;

export type TerminalState = {
  [S in JobState]: (typeof ENDS_THE_JOB)[S] extends true ? S : never;
}[JobState];
export type LiveState = Exclude<JobState, TerminalState>;

/** Whether a job in this state has ended. It can only leave the state when someone retries it. */
export function isTerminal(state: JobState): state is TerminalState {
  return ENDS_THE_JOB[state];
}

export const TERMINAL_STATES: readonly TerminalState[] = JOB_STATES.filter(isTerminal);
