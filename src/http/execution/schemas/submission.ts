import { Type } from 'typebox';
import { EXECUTION_TYPES, WORK_KINDS } from '../../../core/execution/kinds.ts';
import { EXECUTION_STATES } from '../../../core/execution/states.ts';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { shape, textOrNull, timestamp, word, wordOrNull } from '../../shared/shapes.ts';

export const ExecutionSubmission = shape(
  'ExecutionSubmission',
  {
    type: word(EXECUTION_TYPES, 'EXECUTE runs immediately, DEFERRED at execution_at, EMIT_EVENT immediately or at execution_at.'),
    execution_at: Type.Optional(textOrNull('When to run: ISO 8601 in UTC, in the future. DEFERRED needs it, EXECUTE must not have it.')),
    callback: Type.Optional(
      Type.Unsafe<string | null>({
        type: ['string', 'null'],
        maxLength: FIELD_LIMITS.callbackUrl,
        description: 'An http or https URL that is notified of each change of state.',
      }),
    ),
    idempotency_key: Type.Optional(
      Type.Unsafe<string | null>({
        type: ['string', 'null'],
        minLength: 1,
        maxLength: FIELD_LIMITS.idempotencyKey,
        description: 'A repeat with the same key returns the first job. Default: the header Idempotency-Key.',
      }),
    ),
    work_kind: Type.Optional(wordOrNull(WORK_KINDS, 'The behaviour of the job. Default: chosen at random.')),
  },
  {
    description: 'A job to run.',
    examples: [
      { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' },
      { type: 'DEFERRED', execution_at: '2030-01-15T10:30:00Z', callback: 'https://example.com/hook' },
    ],
  },
);

export const ExecutionAccepted = shape(
  'ExecutionAccepted',
  {
    job_id: Type.String({ description: 'The id of the job.' }),
    state: word(EXECUTION_STATES, 'QUEUED if the job is due, CREATED if it is due later.'),
    created_at: timestamp('When the job was accepted.'),
  },
  {
    description: 'An accepted job. For a repeat, the job of the first request as it is now.',
    examples: [
      {
        job_id: '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11',
        state: 'QUEUED',
        created_at: '2024-01-15T10:30:00.000Z',
      },
    ],
  },
);
