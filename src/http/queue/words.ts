import type { FailureCategory } from '../../core/failure.ts';
import { JOB_STATES, type JobState } from '../../core/states.ts';

export type StateWord = Uppercase<JobState>;

/** The names of the states in this API. */
export const STATE_WORDS = Object.fromEntries(JOB_STATES.map((state) => [state, state.toUpperCase()])) as {
  readonly [S in JobState]: Uppercase<S>;
};

export const STATE_WORD_LIST: readonly StateWord[] = Object.values(STATE_WORDS);

export const stateOf = (word: StateWord): JobState => word.toLowerCase() as JobState;

/** The API has four categories. A cancelled attempt is not a failure of the work, so it counts as SYSTEM. */
export const CATEGORY_WORDS = {
  TEMPORARY: 'TEMPORARY',
  PERMANENT: 'PERMANENT',
  TIMEOUT: 'TIMEOUT',
  CANCELLED: 'SYSTEM',
  SYSTEM: 'SYSTEM',
} as const satisfies Record<FailureCategory, string>;

export type CategoryWord = (typeof CATEGORY_WORDS)[FailureCategory];

export const CATEGORY_WORD_LIST = ['TEMPORARY', 'PERMANENT', 'TIMEOUT', 'SYSTEM'] as const satisfies CategoryWord[];

/** The core categories that the API shows as one of these words. */
export function categoriesOf(words: readonly CategoryWord[]): FailureCategory[] {
  const all = Object.keys(CATEGORY_WORDS) as FailureCategory[];
  return all.filter((category) => words.includes(CATEGORY_WORDS[category]));
}

/** Members by their name in this API, with their name in the core. */
export const SUBMISSION_MEMBERS = {
  type: 'type',
  payload: 'payload',
  priority: 'priority',
  delay: 'delay',
  scheduled_for: 'scheduledAt',
  scheduled_at: 'scheduledAt',
  timeout: 'timeout',
  lifetime: 'lifetime',
  max_attempts: 'maxAttempts',
  backoff: 'backoff',
  idempotency_key: 'idempotencyKey',
  correlation_id: 'correlationId',
  tags: 'tags',
  depends_on: 'dependsOn',
  dependency_type: 'dependencyType',
  callback_url: 'callbackUrl',
  queue: 'queue',
  limit: 'limit',
  unique: 'unique',
  debounce: 'debounce',
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

export const UNIQUE_MEMBERS = { key: 'key', until: 'until', on_conflict: 'onConflict' } as const;

const OTHER_MEMBERS = {
  next_cursor: 'nextCursor',
  reset_attempts: 'resetAttempts',
  retry_after: 'retryAfterMs',
  time_range: 'timeRange',
  time_zone: 'timeZone',
  job_ids: 'jobIds',
  failure_rate: 'failureRate',
};

const WIRE_NAMES = new Map<string, string>(
  [SUBMISSION_MEMBERS, BACKOFF_MEMBERS, UNIQUE_MEMBERS, OTHER_MEMBERS].flatMap((members) =>
    Object.entries(members).map(([wire, core]): [string, string] => [core, wire]),
  ),
);

// An unknown name comes from the caller and is not translated.
const CAMEL_WORD = /\b[a-z]+(?:[A-Z][a-z]+)+\b(?! is not known)/g;

/** Replaces core names of members in a message with their names in this API. */
export const inWireNames = (text: string): string => text.replace(CAMEL_WORD, (word) => WIRE_NAMES.get(word) ?? word);
