import { type TSchema, Type } from 'typebox';
import { BACKOFF_STRATEGIES } from '../../../core/backoff.ts';
import { DEPENDENCY_TYPES, MAX_BREADTH } from '../../../core/dependencies.ts';
import { CATEGORY_NAMES } from '../../../core/governance/categories.ts';
import { MAX_LIMIT_KEY, MOST_LIMITED } from '../../../core/limit.ts';
import { MAX_ATTEMPTS } from '../../../core/policy.ts';
import { FIELD_LIMITS, STANDING_QUEUES } from '../../../core/submission-fields.ts';
import { MAX_UNIQUE_KEY, ON_CONFLICT, UNIQUE_UNTIL } from '../../../core/unique.ts';
import { MAX_BATCH } from '../../../services/jobs/submit-many.ts';
import { ErrorDetail } from './error.ts';
import {
  durationInput,
  JobId,
  named,
  Payload,
  PriorityWord,
  State,
  shape,
  stateOrNull,
  Tags,
  textOrNull,
  timestamp,
  timestampInput,
  timestampOrNull,
  word,
} from './shapes.ts';

export const UUID_TEXT = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$';
const TRACEPARENT_TEXT = '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$';

/** Null counts as absent, because some clients send it. */
export const absentOrNull = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]));

export const BackoffConfig = shape(
  'BackoffConfig',
  {
    strategy: absentOrNull(word(BACKOFF_STRATEGIES, 'CUSTOM needs a worker that has registered a function for the type.')),
    initial_delay: absentOrNull(durationInput('First retry delay.')),
    max_delay: absentOrNull(durationInput('Maximum retry delay.')),
    multiplier: absentOrNull(Type.Number({ description: 'For exponential backoff.' })),
    jitter: absentOrNull(Type.Boolean({ description: 'Add a random part to the delay of retries.' })),
  },
  { description: 'How long to wait before a retry.' },
);

export const JobLimit = shape(
  'JobLimit',
  {
    key: Type.String({ description: 'Jobs of the org with the same key share the limit.', minLength: 1, maxLength: MAX_LIMIT_KEY }),
    concurrency: absentOrNull(Type.Integer({ description: 'How many of them run at the same time.', minimum: 1, maximum: MOST_LIMITED })),
    rate: absentOrNull(Type.Integer({ description: 'How many of them start within `per`.', minimum: 1, maximum: MOST_LIMITED })),
    per: absentOrNull(durationInput('The time of the rate, from 1s to 24h.')),
  },
  {
    description: 'Give concurrency, or rate and per, or all three. The numbers of the newest job with the key apply to all of them.',
    examples: [{ key: 'mail-provider', rate: 5, per: 'PT1S' }],
  },
);

export const UniqueJob = shape(
  'UniqueJob',
  {
    key: Type.String({ description: 'Within the type, the org and the project.', minLength: 1, maxLength: MAX_UNIQUE_KEY }),
    until: absentOrNull(
      word(UNIQUE_UNTIL, 'Until when the job keeps others away: until its attempt starts, or until it has ended. Default: finished.'),
    ),
    on_conflict: absentOrNull(
      word(
        ON_CONFLICT,
        'Default: skip, which creates no job. replace cancels a job that has not started, and creates a new one. replace_payload gives the new payload to a job that has not started.',
      ),
    ),
  },
  { description: 'One job with the key at a time.', examples: [{ key: 'index-42', until: 'started', on_conflict: 'replace_payload' }] },
);

export const DebouncedJob = shape(
  'DebouncedJob',
  {
    key: Type.String({ description: 'Within the type, the org and the project.', minLength: 1, maxLength: MAX_UNIQUE_KEY }),
    delay: durationInput('The job starts this long after the newest submission with the key.'),
    max: absentOrNull(durationInput('It starts at most this long after the first one. Default: half the lifetime of the job.')),
  },
  { description: 'One job for many submissions, with the newest payload.', examples: [{ key: 'index-42', delay: 'PT5S', max: 'PT1M' }] },
);

export const optionalText = (description: string, maxLength: number) => absentOrNull(Type.String({ description, minLength: 1, maxLength }));

export const JobSubmission = shape(
  'JobSubmission',
  {
    type: Type.String({
      description: 'The job type, which selects the handler.',
      minLength: 1,
      maxLength: FIELD_LIMITS.type,
    }),
    payload: Payload,
    priority: absentOrNull(PriorityWord),
    delay: absentOrNull(durationInput('Delay before execution starts; not together with scheduled_at.')),
    scheduled_at: absentOrNull(timestampInput('Absolute time to start execution; not together with delay.')),
    scheduled_for: absentOrNull(timestampInput('The same as scheduled_at. Send one of them.')),
    timeout: absentOrNull(durationInput('Max execution time of an attempt.')),
    lifetime: absentOrNull(
      durationInput('Max time from the submission to the end of the job, delays and retries included. It must be longer than the delay.'),
    ),
    max_attempts: absentOrNull(
      Type.Integer({ minimum: 1, maximum: MAX_ATTEMPTS, description: 'How many attempts the job has at most, the first included.' }),
    ),
    backoff: absentOrNull(named(BackoffConfig, { description: 'How long to wait before a retry. Default: that of the type.' })),
    idempotency_key: optionalText('A repeat with the same key and content returns the first job.', FIELD_LIMITS.idempotencyKey),
    correlation_id: optionalText('For tracing. Default: the id of the request.', FIELD_LIMITS.correlationId),
    tags: absentOrNull(Tags),
    depends_on: absentOrNull(Type.Array(JobId, { maxItems: MAX_BREADTH, description: 'Jobs that must end first.' })),
    dependency_type: absentOrNull(word(DEPENDENCY_TYPES, 'Default: AFTER.')),
    callback_url: optionalText('An http or https URL that is notified when the job has ended.', FIELD_LIMITS.callbackUrl),
    queue: optionalText(
      `Default: the queue of the category, else q:default. One of ${STANDING_QUEUES.join(', ')}, or a queue that an operator configured; any other is refused. q:critical needs the scope queue:critical.`,
      FIELD_LIMITS.queue,
    ),
    limit: absentOrNull(named(JobLimit, { description: 'Default: the limit of the type, else that of the queue.' })),
    unique: absentOrNull(named(UniqueJob, { description: 'Not together with debounce. Default: none.' })),
    debounce: absentOrNull(named(DebouncedJob, { description: 'Not together with unique, delay or scheduled_at.' })),
    category: absentOrNull(
      word(CATEGORY_NAMES, 'Makes it a governed job. GET /categories shows the queue, the retries and the rules of each category.'),
    ),
    project_id: absentOrNull(
      Type.String({
        description: 'A UUID. A key that is bound to a project allows only that project.',
        pattern: UUID_TEXT,
      }),
    ),
    traceparent: absentOrNull(
      Type.String({
        description: 'W3C Trace Context. Default: the header traceparent.',
        pattern: TRACEPARENT_TEXT,
      }),
    ),
    org_id: absentOrNull(Type.String({ description: 'If given, it must be the org of the key.' })),
  },
  {
    description: 'A job to run.',
    examples: [
      { type: 'email', payload: { to: 'ada@example.com' } },
      {
        type: 'report',
        payload: { month: '2024-01' },
        priority: 'LOW',
        delay: 'PT5M',
        idempotency_key: 'report-2024-01',
      },
    ],
  },
);

export const SubmissionResult = shape(
  'SubmissionResult',
  {
    job_id: JobId,
    status: word(
      ['ACCEPTED', 'DUPLICATE', 'SKIPPED', 'UPDATED'],
      'DUPLICATE: an earlier request with the same idempotency key created the job. SKIPPED: a job with the unique key exists, and no other was created. UPDATED: that job got the new payload.',
    ),
    state: State,
    created_at: timestamp('When the job was created.'),
    scheduled_for: timestampOrNull('When the job becomes eligible; null while dependencies are unmet.'),
    existing_job_id: Type.Optional(
      Type.String({ description: 'For DUPLICATE: the job of the first request. For SKIPPED and UPDATED: the job with the unique key.' }),
    ),
    replaced_job_id: Type.Optional(
      Type.String({ description: 'For ACCEPTED: the job with the unique key that was cancelled for this one.' }),
    ),
    idempotency_key: Type.Optional(
      Type.String({ description: 'For a governed job that was sent without a key: the key that was derived from its content.' }),
    ),
  },
  {
    description: 'An accepted job.',
    examples: [
      {
        job_id: '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11',
        status: 'ACCEPTED',
        state: 'SCHEDULED',
        created_at: '2024-01-15T10:30:00.000Z',
        scheduled_for: '2024-01-15T10:30:00.000Z',
      },
    ],
  },
);

export const BatchSubmission = shape(
  'BatchSubmission',
  {
    jobs: Type.Array(named(JobSubmission), { minItems: 1, maxItems: MAX_BATCH, description: 'The jobs to run.' }),
    atomic: Type.Optional(Type.Boolean({ default: true, description: 'Submit all jobs or none; otherwise only the valid ones.' })),
  },
  { description: 'Several jobs in one request.' },
);

export const RowError = shape(
  'SubmissionError',
  {
    code: Type.String({ description: 'The reason, for programs.' }),
    message: Type.String({ description: 'The reason, for people.' }),
    details: Type.Array(named(ErrorDetail), { description: 'One entry for each problem of the job.' }),
  },
  { description: 'Why a job of a batch was rejected.' },
);

export const BatchRow = shape(
  'BatchSubmissionResult',
  {
    job_id: textOrNull('Null for REJECTED.'),
    status: word(['ACCEPTED', 'DUPLICATE', 'SKIPPED', 'UPDATED', 'REJECTED'], 'What happened to this job; error says why it was rejected.'),
    state: stateOrNull('The state of the job. Null for REJECTED.'),
    created_at: timestampOrNull('Null for REJECTED.'),
    scheduled_for: timestampOrNull('When the job becomes eligible.'),
    existing_job_id: Type.Optional(Type.String({ description: 'For DUPLICATE, SKIPPED and UPDATED.' })),
    replaced_job_id: Type.Optional(Type.String({ description: 'For ACCEPTED: the job that was cancelled for this one.' })),
    idempotency_key: Type.Optional(Type.String({ description: 'The derived key of a governed job that was sent without one.' })),
    error: Type.Optional(named(RowError, { description: 'For REJECTED: why.' })),
  },
  { description: 'A SubmissionResult; a rejected job has no id.' },
);

export const BatchResult = shape(
  'BatchResult',
  {
    total: Type.Integer({ description: 'Jobs submitted.' }),
    accepted: Type.Integer({ description: 'Jobs accepted, repeats of earlier requests included.' }),
    rejected: Type.Integer({ description: 'Jobs rejected.' }),
    results: Type.Array(named(BatchRow), { description: 'One per job, in the order given.' }),
  },
  { description: 'What happened to each job of a batch.' },
);
