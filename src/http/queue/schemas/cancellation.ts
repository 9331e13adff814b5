import { Type } from 'typebox';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { ERROR_MEMBERS } from './error.ts';
import { JobSelection } from './search.ts';
import { JobId, named, shape, stateOrNull, word } from './shapes.ts';

const REQUEST = {
  reason: Type.Optional(Type.String({ maxLength: FIELD_LIMITS.reason, description: 'The reason, for the history.' })),
  force: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'Do not wait for a running handler: its result no longer counts, and the job ends after a grace period.',
    }),
  ),
};

export const CancellationRequest = shape('CancellationRequest', REQUEST, {
  description: 'How to cancel a job.',
  examples: [{ reason: 'ordered twice', force: true }],
});

const RESULT = {
  job_id: JobId,
  previous_state: stateOrNull('The state of the job before the request; null if it does not exist.'),
  message: Type.String({ description: 'Additional context.' }),
};

export const CancellationResult = shape(
  'CancellationResult',
  {
    ...RESULT,
    status: word(
      ['CANCELLED', 'ALREADY_COMPLETE', 'CANCEL_REQUESTED'],
      'CANCELLED: the job will not run. CANCEL_REQUESTED: its handler was asked to stop. ALREADY_COMPLETE: the job had ended before.',
    ),
  },
  { description: 'What the request to cancel a job did.' },
);

export const CancellationNotFound = shape(
  'CancellationNotFound',
  { ...RESULT, ...ERROR_MEMBERS, status: word(['NOT_FOUND'], 'The org of the key has no such job.') },
  { description: 'A CancellationResult and an APIError in one.' },
);

const MAX_IDS = 1_000;

export const BatchCancellation = shape(
  'BatchCancellation',
  {
    job_ids: Type.Optional(Type.Array(JobId, { minItems: 1, maxItems: MAX_IDS, description: 'Specific jobs.' })),
    filter: Type.Optional(named(JobSelection, { description: 'Jobs that match. Without a limit, a filter needs a condition.' })),
    all: Type.Optional(Type.Literal(true, { description: 'All jobs of the org.' })),
    ...REQUEST,
    dry_run: Type.Optional(Type.Boolean({ default: false, description: 'Count what would happen; change nothing.' })),
  },
  {
    description: 'One of job_ids, filter and all.',
    examples: [{ filter: { types: ['email'], states: ['SCHEDULED'] }, reason: 'campaign stopped', dry_run: true }],
  },
);

export const CancellationError = shape(
  'CancellationError',
  {
    job_id: Type.String({ description: 'The job that was not cancelled, as given.' }),
    code: Type.String({ description: 'The reason, for programs.' }),
    message: Type.String({ description: 'The reason, for people.' }),
  },
  { description: 'Why one job was not cancelled.' },
);

export const BatchCancellationResult = shape(
  'BatchCancellationResult',
  {
    requested: Type.Integer({ description: 'Jobs targeted.' }),
    cancelled: Type.Integer({ description: 'Cancelled, or running and asked to stop.' }),
    skipped: Type.Integer({ description: 'Already ended.' }),
    failed: Type.Integer({ description: 'Not cancelled; see errors.' }),
    errors: Type.Array(named(CancellationError), { description: 'One entry for each job that was not cancelled.' }),
    dry_run: Type.Boolean({ description: 'True if nothing was changed, as requested.' }),
  },
  { description: 'How many jobs were cancelled.' },
);
