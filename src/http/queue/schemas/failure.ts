import { Type } from 'typebox';
import { CATEGORY_WORD_LIST } from '../words.ts';
import { ERROR_MEMBERS } from './error.ts';
import { Category, StackTrace } from './job.ts';
import { Types } from './search.ts';
import {
  Cursor,
  durationInput,
  JobId,
  Limit,
  named,
  PriorityWord,
  StateOrNull,
  shape,
  textOrNull,
  timestamp,
  timestampInput,
  timestampOrNull,
  word,
  wordOrNull,
} from './shapes.ts';

export const FailureInfo = shape('FailureInfo', {
  attempt: Type.Integer({ description: 'The attempt that failed; 0 if the job failed without one.' }),
  timestamp: timestamp('When it failed.'),
  duration_ms: Type.Integer({ minimum: 0 }),
  category: Category,
  code: Type.String(),
  message: Type.String(),
  stack_trace: StackTrace,
  context: Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } }),
  worker_id: textOrNull('The worker that ran it, by a name of the API.'),
  host: textOrNull('Its host, by a name of the API.'),
});

export const AttemptInfo = shape('AttemptInfo', {
  attempt: Type.Integer(),
  started_at: timestamp('When the attempt began.'),
  finished_at: timestamp('When the attempt ended.'),
  result: word(['SUCCESS', 'FAILURE', 'TIMEOUT', 'CANCELLED']),
  failure: Type.Optional(named(FailureInfo, { description: 'Present if the result is not SUCCESS.' })),
});

export const FailureDetails = shape('FailureDetails', {
  job_id: JobId,
  type: Type.String(),
  final_state: wordOrNull(['FAILED', 'DEAD_LETTER'], 'Null for a job that waits for its next attempt, runs again, or ended otherwise.'),
  total_attempts: Type.Integer(),
  failure: named(FailureInfo, { description: 'The newest failure.' }),
  attempts: Type.Optional(Type.Array(named(AttemptInfo), { description: 'With include_all_attempts, oldest first.' })),
});

const FAILURE_STATES = ['FAILED', 'DEAD_LETTER', 'RETRYING'] as const;

export const TimeRange = shape('TimeRange', {
  from: Type.Optional(timestampInput('Inclusive.')),
  to: Type.Optional(timestampInput('Exclusive.')),
});

export const Pagination = shape('Pagination', { cursor: Type.Optional(Cursor), limit: Type.Optional(Limit) });

export const FailureSearch = shape(
  'FailureSearch',
  {
    states: Type.Optional(Type.Array(word(FAILURE_STATES), { maxItems: 100 })),
    failure_category: Type.Optional(Type.Array(word(CATEGORY_WORD_LIST), { maxItems: 100 })),
    types: Type.Optional(Types),
    error_code: Type.Optional(Type.String({ maxLength: 1_000, description: 'Exactly this code.' })),
    time_range: Type.Optional(named(TimeRange, { description: 'When the job failed.' })),
    pagination: Type.Optional(named(Pagination)),
  },
  {
    description: 'All filters are optional and combined with AND.',
    examples: [{ failure_category: ['TIMEOUT'], time_range: { from: '2024-01-15T00:00:00Z' }, pagination: { limit: 50 } }],
  },
);

const tally = (description: string) =>
  Type.Unsafe<Record<string, number>>({ type: 'object', additionalProperties: { type: 'integer' }, description });

export const FailureSearchResult = shape('FailureSearchResult', {
  failures: Type.Array(named(FailureDetails), { description: 'Newest failure first.' }),
  total_count: Type.Integer({ description: 'How many match; a lower bound if total_is_estimate.' }),
  total_is_estimate: Type.Boolean({
    description: 'The org has many failures: the counts cover only the newest 5 000.',
  }),
  next_cursor: textOrNull('The cursor of the next page; null on the last page. Any page may contain fewer failures than the limit.'),
  by_category: tally('Matching jobs by category.'),
  by_code: tally('Matching jobs by code.'),
  by_type: tally('Matching jobs by type.'),
});

export const RetryRequest = shape(
  'RetryRequest',
  {
    reset_attempts: Type.Optional(Type.Boolean({ default: false, description: 'Start to count attempts from one again.' })),
    priority: Type.Optional(PriorityWord),
    delay: Type.Optional(durationInput('Delay before the retry.')),
  },
  { examples: [{ reset_attempts: true, delay: 'PT1M' }] },
);

const RETRY_RESULT = {
  job_id: JobId,
  new_state: StateOrNull,
  scheduled_for: timestampOrNull('When the job becomes eligible.'),
};

export const RetryResult = shape('RetryResult', { ...RETRY_RESULT, status: word(['QUEUED', 'NOT_RETRIABLE']) });

export const RetryNotFound = shape(
  'RetryNotFound',
  { ...RETRY_RESULT, ...ERROR_MEMBERS, status: word(['NOT_FOUND']) },
  { description: 'A RetryResult and an APIError in one.' },
);
