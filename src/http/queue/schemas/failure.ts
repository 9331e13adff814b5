import { Type } from 'typebox';
import { MAX_REASON_LENGTH } from '../../../core/governance/audit-action.ts';
import { CATEGORY_WORD_LIST } from '../words.ts';
import { ERROR_MEMBERS } from './error.ts';
import { Category, StackTrace } from './job.ts';
import { Types } from './search.ts';
import {
  Cursor,
  durationInput,
  JobId,
  JobType,
  Limit,
  named,
  PriorityWord,
  shape,
  stateOrNull,
  textOrNull,
  timestamp,
  timestampInput,
  timestampOrNull,
  word,
  wordOrNull,
} from './shapes.ts';

export const FailureInfo = shape(
  'FailureInfo',
  {
    attempt: Type.Integer({ description: 'The attempt that failed; 0 if the job failed without one.' }),
    timestamp: timestamp('When it failed.'),
    duration_ms: Type.Integer({ minimum: 0, description: 'How long the attempt ran, in milliseconds.' }),
    category: Category,
    code: Type.String({ description: 'What went wrong, for programs.' }),
    message: Type.String({ description: 'What went wrong, for people.' }),
    stack_trace: StackTrace,
    context: Type.Unsafe<Record<string, string>>({
      type: 'object',
      additionalProperties: { type: 'string' },
      description: 'Facts that the error carried, by name.',
    }),
    worker_id: textOrNull('The worker that ran it, by a name of the API.'),
    host: textOrNull('Its host, by a name of the API.'),
  },
  { description: 'One failure of a job.' },
);

export const AttemptInfo = shape(
  'AttemptInfo',
  {
    attempt: Type.Integer({ description: 'The number of the attempt, from 1.' }),
    started_at: timestamp('When the attempt began.'),
    finished_at: timestamp('When the attempt ended.'),
    result: word(['SUCCESS', 'FAILURE', 'TIMEOUT', 'CANCELLED'], 'How the attempt ended.'),
    failure: Type.Optional(named(FailureInfo, { description: 'Present if the result is not SUCCESS.' })),
  },
  { description: 'One attempt of a job.' },
);

export const FailureDetails = shape(
  'FailureDetails',
  {
    job_id: JobId,
    type: JobType,
    final_state: wordOrNull(['FAILED', 'DEAD_LETTER'], 'Null for a job that waits for its next attempt, runs again, or ended otherwise.'),
    total_attempts: Type.Integer({ description: 'How many attempts the job has had.' }),
    failure: named(FailureInfo, { description: 'The newest failure.' }),
    attempts: Type.Optional(Type.Array(named(AttemptInfo), { description: 'With include_all_attempts, oldest first.' })),
  },
  { description: 'Why a job failed.' },
);

const FAILURE_STATES = ['FAILED', 'DEAD_LETTER', 'RETRYING'] as const;

export const TimeRange = shape(
  'TimeRange',
  {
    from: Type.Optional(timestampInput('Inclusive.')),
    to: Type.Optional(timestampInput('Exclusive.')),
  },
  { description: 'A range of times. Either end may be absent.' },
);

export const Pagination = shape(
  'Pagination',
  { cursor: Type.Optional(Cursor), limit: Type.Optional(Limit) },
  { description: 'Which page to return.' },
);

export const FailureSearch = shape(
  'FailureSearch',
  {
    states: Type.Optional(Type.Array(word(FAILURE_STATES), { maxItems: 100, description: 'States to include. Default: all of them.' })),
    failure_category: Type.Optional(
      Type.Array(word(CATEGORY_WORD_LIST), { maxItems: 100, description: 'Categories of the failure to include.' }),
    ),
    types: Type.Optional(Types),
    error_code: Type.Optional(Type.String({ maxLength: 1_000, description: 'Exactly this code.' })),
    time_range: Type.Optional(named(TimeRange, { description: 'When the job failed.' })),
    pagination: Type.Optional(named(Pagination, { description: 'Default: the first page.' })),
  },
  {
    description: 'All filters are optional and combined with AND.',
    examples: [{ failure_category: ['TIMEOUT'], time_range: { from: '2024-01-15T00:00:00Z' }, pagination: { limit: 50 } }],
  },
);

const tally = (description: string) =>
  Type.Unsafe<Record<string, number>>({ type: 'object', additionalProperties: { type: 'integer' }, description });

export const FailureSearchResult = shape(
  'FailureSearchResult',
  {
    failures: Type.Array(named(FailureDetails), { description: 'Newest failure first.' }),
    total_count: Type.Integer({ description: 'How many match; a lower bound if total_is_estimate.' }),
    total_is_estimate: Type.Boolean({
      description: 'The org has many failures: the counts cover only the newest 5 000.',
    }),
    next_cursor: textOrNull('The cursor of the next page; null on the last page. Any page may contain fewer failures than the limit.'),
    by_category: tally('Matching jobs by category.'),
    by_code: tally('Matching jobs by code.'),
    by_type: tally('Matching jobs by type.'),
  },
  { description: 'A page of failures.' },
);

export const RetryRequest = shape(
  'RetryRequest',
  {
    reset_attempts: Type.Optional(Type.Boolean({ default: false, description: 'Start to count attempts from one again.' })),
    priority: Type.Optional(PriorityWord),
    delay: Type.Optional(durationInput('Delay before the retry.')),
    reason: Type.Optional(Type.String({ maxLength: MAX_REASON_LENGTH, description: 'Why, for the audit trail.' })),
  },
  { description: 'How to retry a job.', examples: [{ reset_attempts: true, delay: 'PT1M' }] },
);

const RETRY_RESULT = {
  job_id: JobId,
  new_state: stateOrNull('The state of the job after the request; null if it does not exist.'),
  scheduled_for: timestampOrNull('When the job becomes eligible.'),
};

export const RetryResult = shape(
  'RetryResult',
  {
    ...RETRY_RESULT,
    status: word(['QUEUED', 'NOT_RETRIABLE'], 'QUEUED: the job runs again. NOT_RETRIABLE: its state does not allow that.'),
  },
  { description: 'What the request to retry a job did.' },
);

export const RetryNotFound = shape(
  'RetryNotFound',
  { ...RETRY_RESULT, ...ERROR_MEMBERS, status: word(['NOT_FOUND'], 'The org of the key has no such job.') },
  { description: 'A RetryResult and an APIError in one.' },
);
