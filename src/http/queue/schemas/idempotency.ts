import { Type } from 'typebox';
import { KEY_STATUSES } from '../../../core/idempotency-record.ts';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { JobId, JobType, shape, textOrNull, timestamp, word } from './shapes.ts';

export const IdempotencyKeyParams = Type.Object({
  key: Type.String({ description: `The idempotency key, percent-encoded: at most ${FIELD_LIMITS.idempotencyKey} characters.` }),
});

export const IdempotencyKeyQuery = Type.Object(
  {
    type: Type.Optional(Type.String({ description: 'The job type. Needed if jobs of several types have the key.' })),
    project_id: Type.Optional(Type.String({ description: 'The project. Needed if jobs of several projects have the key.' })),
  },
  { additionalProperties: false },
);

export const IdempotencyKey = shape(
  'IdempotencyKey',
  {
    key: Type.String({ description: 'The key.' }),
    type: JobType,
    project_id: textOrNull('The project of the job, if it belongs to one.'),
    status: word(KEY_STATUSES, 'How the job stands. A cancelled job is failed, and a dead letter is dead.'),
    first_seen_at: timestamp('The submission that created the job.'),
    last_seen_at: timestamp('The newest submission with the key.'),
    expires_at: timestamp('From then on the key can be used for a new job.'),
    job_id: JobId,
    result_ref: textOrNull('The path of the result, once the job has succeeded.'),
    error_ref: textOrNull('The path of the failure or of the cancellation, once the job has ended without success.'),
  },
  { description: 'A stored idempotency key and the job that it stands for.' },
);
