import { Type } from 'typebox';
import { DEPENDENCY_TYPES } from '../../../core/dependencies.ts';
import { MAX_REASON_LENGTH } from '../../../core/governance/audit-action.ts';
import { DEAD_LETTER_STATUSES } from '../../../core/governance/dead-letter.ts';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { CATEGORY_WORD_LIST } from '../words.ts';
import { Artifact } from './artifact.ts';
import {
  JobId,
  JobType,
  named,
  PriorityWord,
  State,
  shape,
  stateOrNull,
  Tags,
  textOrNull,
  timestamp,
  timestampOrNull,
  word,
  wordOrNull,
} from './shapes.ts';

export const Category = word(
  CATEGORY_WORD_LIST,
  'TEMPORARY: a retry may help. PERMANENT: it cannot. TIMEOUT: the attempt took too long. SYSTEM: the worker or the platform failed.',
);

export const StackTrace = Type.Optional(Type.String({ description: 'Only for keys with the scope failures:read.' }));

export const ProgressInfo = shape(
  'ProgressInfo',
  {
    percent: Type.Integer({ minimum: 0, maximum: 100, description: 'How far the job is.' }),
    message: textOrNull('Current activity.'),
    updated_at: timestamp('When progress was reported.'),
  },
  { description: 'The newest progress that the handler reported.' },
);

export const ErrorInfo = shape(
  'ErrorInfo',
  {
    category: Category,
    code: Type.String({ description: 'What went wrong, for programs.' }),
    message: Type.String({ description: 'What went wrong, for people.' }),
    stack_trace: StackTrace,
  },
  { description: 'The failure of an attempt.' },
);

export const JobResult = shape(
  'JobResult',
  {
    status: word(['SUCCESS', 'FAILURE'], 'How the attempt ended.'),
    output: Type.Optional(Type.Unknown({ description: 'The return value of the handler; bytes as {"$bytes": "<base64>"}.' })),
    error: Type.Optional(named(ErrorInfo, { description: 'Present if FAILURE.' })),
    duration_ms: Type.Integer({ minimum: 0, description: 'Execution time of the attempt.' }),
    attempt: Type.Integer({ description: 'Which attempt produced the result.' }),
  },
  { description: 'The result of the last attempt.' },
);

export const StateTransition = shape(
  'StateTransition',
  {
    from_state: stateOrNull('The state before. Null for the first transition of a waiting job.'),
    to_state: State,
    timestamp: timestamp('When it happened.'),
    reason: Type.String({ description: 'Why it happened.', examples: ['started', 'manual_retry'] }),
  },
  { description: 'One change of the state of a job.' },
);

export const ShownLimit = shape(
  'ShownLimit',
  {
    key: Type.String({ description: 'Jobs of the org with the same key share the limit.' }),
    concurrency: Type.Union([Type.Integer(), Type.Null()], { description: 'How many jobs with the key run at the same time.' }),
    rate: Type.Union([Type.Integer(), Type.Null()], { description: 'How many jobs with the key start within `per`.' }),
    per: textOrNull('The time of the rate.'),
  },
  { description: 'The limit of a job.' },
);

export const JobStatus = shape(
  'JobStatus',
  {
    job_id: JobId,
    type: JobType,
    state: State,
    attempt: Type.Integer({ minimum: 1, description: 'The current attempt, from 1; grows when an attempt starts.' }),
    created_at: timestamp('When the job was submitted.'),
    updated_at: timestamp('When its state last changed.'),
    scheduled_for: timestampOrNull('The earliest start; null while dependencies are unmet.'),
    planned_at: timestampOrNull('The scheduled run that the job belongs to; null if no schedule submitted it.'),
    started_at: timestampOrNull('Start of the newest attempt; null if never started.'),
    completed_at: timestampOrNull('When the job ended; null if it has not.'),
    progress: Type.Optional(named(ProgressInfo, { description: 'If the handler reports it.' })),
    result: Type.Optional(named(JobResult, { description: 'With include_result, once the job ended after an attempt.' })),
    artifacts: Type.Optional(
      Type.Array(named(Artifact), { description: 'With include_result: the files that its handler stored, at most 100.' }),
    ),
    history: Type.Optional(Type.Array(named(StateTransition), { description: 'With include_history, oldest first.' })),
    priority: PriorityWord,
    tags: Tags,
    correlation_id: Type.String({ description: 'As given, else the id of the request.' }),
    request_id: Type.String({ description: 'The X-Request-Id of the request that submitted the job.' }),
    category: textOrNull('As submitted.'),
    project_id: textOrNull('The project of the org that the job belongs to.'),
    traceparent: textOrNull('W3C Trace Context: the span that submitted the job.'),
    scheduled_at: timestampOrNull('When the job last became ready for workers.'),
    queue: Type.String({ description: 'The queue of the job; q:deadletter if it is DEAD_LETTER.' }),
    origin_queue: textOrNull('The queue of a DEAD_LETTER job before it died; null in other states.'),
    dead_letter_status: wordOrNull(DEAD_LETTER_STATUSES, 'What became of a DEAD_LETTER job; null in other states.'),
    replaces_job_id: textOrNull('The dead-lettered job whose work it does with a corrected payload.'),
    replaced_by_job_id: textOrNull('The job that does its work with a corrected payload.'),
    max_attempts: Type.Integer({ description: 'How many attempts the job has at most.' }),
    idempotency_key: textOrNull('As submitted.'),
    callback_url: textOrNull('The URL that is notified when the job has ended.'),
    depends_on: Type.Array(Type.String(), { description: 'The jobs that it depends on.' }),
    dependency_type: wordOrNull(DEPENDENCY_TYPES, 'How it depends on them; null without dependencies.'),
    parent_id: textOrNull('The job that spawned it.'),
    cancel_requested_at: timestampOrNull('When a running job was asked to stop.'),
    limit: Type.Union([named(ShownLimit), Type.Null()], {
      description: 'The limit that it shares with jobs of the org with the same key.',
    }),
  },
  {
    description: 'A job as it is now.',
    examples: [
      {
        job_id: '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11',
        type: 'email',
        state: 'RUNNING',
        attempt: 1,
        created_at: '2024-01-15T10:30:00.000Z',
        updated_at: '2024-01-15T10:30:00.012Z',
        scheduled_for: '2024-01-15T10:30:00.000Z',
        planned_at: null,
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
        origin_queue: null,
        dead_letter_status: null,
        replaces_job_id: null,
        replaced_by_job_id: null,
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
    correlation_id: Type.Optional(
      orNull(Type.String({ minLength: 1, maxLength: FIELD_LIMITS.correlationId, description: 'For tracing.' })),
    ),
    callback_url: Type.Optional(
      orNull(
        Type.String({
          minLength: 1,
          maxLength: FIELD_LIMITS.callbackUrl,
          description: 'An http or https URL that is notified when the job has ended.',
        }),
      ),
    ),
    reason: Type.Optional(Type.String({ maxLength: MAX_REASON_LENGTH, description: 'Why, for the audit trail.' })),
  },
  {
    description: 'The fields that can be changed until the job ends. Null clears a field. Fields that are absent keep their values.',
    examples: [{ priority: 'HIGH', tags: { customer: 'acme' } }],
  },
);
