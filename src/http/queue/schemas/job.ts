import { Type } from 'typebox';
import { DEPENDENCY_TYPES } from '../../../core/dependencies.ts';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { CATEGORY_WORD_LIST } from '../words.ts';
import {
  JobId,
  named,
  PriorityWord,
  State,
  StateOrNull,
  shape,
  Tags,
  textOrNull,
  timestamp,
  timestampOrNull,
  word,
  wordOrNull,
} from './shapes.ts';

export const Category = word(CATEGORY_WORD_LIST);

export const StackTrace = Type.Optional(Type.String({ description: 'Only for keys with the scope failures:read.' }));

export const ProgressInfo = shape('ProgressInfo', {
  percent: Type.Integer({ minimum: 0, maximum: 100 }),
  message: textOrNull('Current activity.'),
  updated_at: timestamp('When progress was reported.'),
});

export const ErrorInfo = shape('ErrorInfo', {
  category: Category,
  code: Type.String(),
  message: Type.String(),
  stack_trace: StackTrace,
});

export const JobResult = shape('JobResult', {
  status: word(['SUCCESS', 'FAILURE']),
  output: Type.Optional(Type.Unknown({ description: 'The return value of the handler; bytes as {"$bytes": "<base64>"}.' })),
  error: Type.Optional(named(ErrorInfo, { description: 'Present if FAILURE.' })),
  duration_ms: Type.Integer({ minimum: 0, description: 'Execution time of the attempt.' }),
  attempt: Type.Integer({ description: 'Which attempt produced the result.' }),
});

export const StateTransition = shape('StateTransition', {
  from_state: wordOrNullState('Null for the first transition of a waiting job.'),
  to_state: State,
  timestamp: timestamp('When it happened.'),
  reason: Type.String({ description: 'Why it happened.', examples: ['started', 'manual_retry'] }),
});

function wordOrNullState(description: string) {
  return { ...StateOrNull, description } as typeof StateOrNull;
}

export const ShownLimit = shape('ShownLimit', {
  key: Type.String(),
  concurrency: Type.Union([Type.Integer(), Type.Null()], { description: 'How many jobs with the key run at the same time.' }),
  rate: Type.Union([Type.Integer(), Type.Null()], { description: 'How many jobs with the key start within `per`.' }),
  per: textOrNull('The time of the rate.'),
});

export const JobStatus = shape(
  'JobStatus',
  {
    job_id: JobId,
    type: Type.String(),
    state: State,
    attempt: Type.Integer({ minimum: 1, description: 'The current attempt, from 1; grows when an attempt starts.' }),
    created_at: timestamp('When the job was submitted.'),
    updated_at: timestamp('When its state last changed.'),
    scheduled_for: timestampOrNull('The earliest start; null while dependencies are unmet.'),
    started_at: timestampOrNull('Start of the newest attempt; null if never started.'),
    completed_at: timestampOrNull('When the job ended; null if it has not.'),
    progress: Type.Optional(named(ProgressInfo, { description: 'If the handler reports it.' })),
    result: Type.Optional(named(JobResult, { description: 'With include_result, once the job ended after an attempt.' })),
    history: Type.Optional(Type.Array(named(StateTransition), { description: 'With include_history, oldest first.' })),
    priority: PriorityWord,
    tags: Tags,
    correlation_id: Type.String({ description: 'As given, else the id of the request.' }),
    request_id: Type.String({ description: 'The X-Request-Id of the request that submitted the job.' }),
    category: textOrNull('As submitted.'),
    project_id: textOrNull('The project of the org that the job belongs to.'),
    traceparent: textOrNull('W3C Trace Context: the span that submitted the job.'),
    scheduled_at: timestampOrNull('When the job last became ready for workers.'),
    queue: Type.String(),
    max_attempts: Type.Integer(),
    idempotency_key: textOrNull('As submitted.'),
    callback_url: textOrNull('The URL that is notified when the job has ended.'),
    depends_on: Type.Array(Type.String(), { description: 'The jobs that it depends on.' }),
    dependency_type: wordOrNull(DEPENDENCY_TYPES),
    parent_id: textOrNull('The job that spawned it.'),
    cancel_requested_at: timestampOrNull('When a running job was asked to stop.'),
    limit: Type.Union([named(ShownLimit), Type.Null()], {
      description: 'The limit that it shares with jobs of the org with the same key.',
    }),
  },
  {
    examples: [
      {
        job_id: '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11',
        type: 'email',
        state: 'RUNNING',
        attempt: 1,
        created_at: '2024-01-15T10:30:00.000Z',
        updated_at: '2024-01-15T10:30:00.012Z',
        scheduled_for: '2024-01-15T10:30:00.000Z',
        started_at: '2024-01-15T10:30:00.012Z',
        completed_at: null,
        progress: { percent: 40, message: 'sending', updated_at: '2024-01-15T10:30:01.000Z' },
        priority: 'NORMAL',
        tags: { customer: 'acme' },
        correlation_id: 'order-4711',
        request_id: '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11',
        category: null,
        project_id: null,
        traceparent: null,
        scheduled_at: '2024-01-15T10:30:00.000Z',
        queue: 'q:default',
        max_attempts: 3,
        idempotency_key: null,
        callback_url: null,
        depends_on: [],
        dependency_type: null,
        parent_id: null,
        cancel_requested_at: null,
        limit: null,
      },
    ],
  },
);

const orNull = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()]);

export const JobUpdate = shape(
  'JobUpdate',
  {
    type: Type.Optional(Type.String({ description: 'Only before the first attempt, and only to a known type.' })),
    priority: Type.Optional(PriorityWord),
    tags: Type.Optional(orNull(Tags)),
    correlation_id: Type.Optional(orNull(Type.String({ minLength: 1, maxLength: FIELD_LIMITS.correlationId }))),
    callback_url: Type.Optional(orNull(Type.String({ minLength: 1, maxLength: FIELD_LIMITS.callbackUrl }))),
  },
  {
    description: 'The fields that can be changed until the job ends. Null clears a field. Fields that are absent keep their values.',
    examples: [{ priority: 'HIGH', tags: { customer: 'acme' } }],
  },
);
