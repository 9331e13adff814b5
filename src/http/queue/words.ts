import type { FailureCategory } from '../../core/failure.ts';
import { JOB_STATES, type JobState } from '../../core/states.ts';

/** What this door calls each state. */
export const STATE_WORDS = {
  pending: 'PENDING',
  delayed: 'DELAYED',
  scheduled: 'SCHEDULED',
  running: 'RUNNING',
  retrying: 'RETRYING',
  completed: 'COMPLETED',
  failed: 'FAILED',
  dead_letter: 'DEAD_LETTER',
  cancelled: 'CANCELLED',
} as const satisfies Record<JobState, string>;

export type StateWord = (typeof STATE_WORDS)[JobState];

export const STATE_WORD_LIST: readonly StateWord[] = JOB_STATES.map((state) => STATE_WORDS[state]);

const STATES = Object.fromEntries(JOB_STATES.map((state) => [STATE_WORDS[state], state])) as Record<
  StateWord,
  JobState
>;

export const stateOf = (word: StateWord): JobState => STATES[word];

/** Four categories are shown: an attempt that was cancelled is no failure of the work, so it is the system's. */
export const CATEGORY_WORDS = {
  TEMPORARY: 'TEMPORARY',
  PERMANENT: 'PERMANENT',
  TIMEOUT: 'TIMEOUT',
  CANCELLED: 'SYSTEM',
  SYSTEM: 'SYSTEM',
} as const satisfies Record<FailureCategory, string>;

export type CategoryWord = (typeof CATEGORY_WORDS)[FailureCategory];

export const CATEGORY_WORD_LIST = ['TEMPORARY', 'PERMANENT', 'TIMEOUT', 'SYSTEM'] as const satisfies CategoryWord[];

/** The categories that are shown as one of these words. */
export function categoriesOf(words: readonly CategoryWord[]): FailureCategory[] {
  const all = Object.keys(CATEGORY_WORDS) as FailureCategory[];
  return all.filter((category) => words.includes(CATEGORY_WORDS[category]));
}

/** Members as this door spells them, and as the core does. */
export const SUBMISSION_MEMBERS = {
  type: 'type',
  payload: 'payload',
  priority: 'priority',
  delay: 'delay',
  scheduled_at: 'scheduledAt',
  timeout: 'timeout',
  max_attempts: 'maxAttempts',
  backoff: 'backoff',
  idempotency_key: 'idempotencyKey',
  correlation_id: 'correlationId',
  tags: 'tags',
  depends_on: 'dependsOn',
  dependency_type: 'dependencyType',
  callback_url: 'callbackUrl',
  queue: 'queue',
  category: 'category',
  project_id: 'projectId',
  traceparent: 'traceparent',
} as const;

export const BACKOFF_MEMBERS = {
  strategy: 'strategy',
  initial_delay: 'initialDelay',
  max_delay: 'maxDelay',
  multiplier: 'multiplier',
  jitter: 'jitter',
} as const;

const OTHER_MEMBERS = {
  next_cursor: 'nextCursor',
  reset_attempts: 'resetAttempts',
  retry_after: 'retryAfterMs',
  time_range: 'timeRange',
};

const WIRE_NAMES = new Map<string, string>(
  [SUBMISSION_MEMBERS, BACKOFF_MEMBERS, OTHER_MEMBERS].flatMap((members) =>
    Object.entries(members).map(([wire, core]): [string, string] => [core, wire]),
  ),
);

// A name that is said not to be known is the caller's own.
const CAMEL_WORD = /\b[a-z]+(?:[A-Z][a-z]+)+\b(?! is not known)/g;

/** The core's own sentences and field names, with members named as the wire names them. */
export const inWireNames = (text: string): string => text.replace(CAMEL_WORD, (word) => WIRE_NAMES.get(word) ?? word);
