import { Type } from 'typebox';
import { JOB_STATES } from '../../../core/states.ts';
import { MAX_BATCH } from '../../../services/jobs/submit-many.ts';
import { STATE_WORDS, type StateWord } from '../words.ts';
import { ErrorInfo } from './job.ts';
import { Cursor, JobId, JobType, Limit, named, State, shape, textOrNull } from './shapes.ts';
import { JobSubmission } from './submission.ts';

/** A batch of a billion jobs. */
export const MAX_PART = 999_999;

const BatchId = Type.String({
  minLength: 36,
  maxLength: 36,
  description: 'The id of the batch, a UUID.',
  examples: ['8d7c1d5e-3a52-4f0e-9c1b-5f0c7b0e2a44'],
});

const count = (description: string) => Type.Integer({ minimum: 0, description });

export const NewBatch = shape(
  'NewBatch',
  { batch_id: Type.Optional(BatchId) },
  { description: 'A new batch. With an id of your own, the request can be repeated.' },
);

export const Batch = shape(
  'Batch',
  {
    batch_id: BatchId,
    total: count('How many jobs the batch has. It grows until submitted is true.'),
    waiting: count('Jobs that have not started, or wait for their next attempt.'),
    running: count('Jobs whose handler runs.'),
    completed: count('Jobs that completed.'),
    failed: count('Jobs that failed or are dead-lettered.'),
    cancelled: count('Jobs that were cancelled.'),
    removed: count('Jobs that ended and were removed since, because their retention is over.'),
    states: Type.Object(
      Object.fromEntries(JOB_STATES.map((state) => [STATE_WORDS[state], count(`Jobs in the state ${STATE_WORDS[state]}.`)])) as Record<
        StateWord,
        ReturnType<typeof count>
      >,
      { description: 'The number of jobs in each state.' },
    ),
    submitted: Type.Boolean({ description: 'Whether the batch is closed: it gets no more jobs.' }),
    done: Type.Boolean({ description: 'Whether the batch is closed and all its jobs have ended.' }),
  },
  { description: 'A batch, with exact counts of one moment.' },
);

export const NewBatchPiece = shape(
  'NewBatchPiece',
  { jobs: Type.Array(named(JobSubmission), { minItems: 1, maxItems: MAX_BATCH, description: 'The jobs to run.' }) },
  { description: 'Jobs of a batch. All of them are submitted, or none.' },
);

export const BatchPiece = shape(
  'BatchPiece',
  {
    batch_id: BatchId,
    part: Type.Integer({ minimum: 0, maximum: MAX_PART, description: 'The number of the piece.' }),
    jobs: Type.Integer({ minimum: 1, description: 'How many jobs were sent with it.' }),
  },
  { description: 'A piece of a batch that is stored.' },
);

export const BatchFailure = shape(
  'BatchFailure',
  {
    job_id: JobId,
    type: JobType,
    state: State,
    error: Type.Optional(named(ErrorInfo, { description: 'Its last failure. Absent if it never failed.' })),
  },
  { description: 'A job of a batch that failed, is dead-lettered or was cancelled.' },
);

export const BatchFailures = shape(
  'BatchFailures',
  {
    items: Type.Array(named(BatchFailure), { description: 'In the order of their submission.' }),
    next_cursor: textOrNull('The cursor of the next page. Null on the last one.'),
  },
  { description: 'A page of the jobs of a batch that did not complete.' },
);

export const BatchParams = Type.Object({ batch_id: BatchId });

export const PieceParams = Type.Object({
  batch_id: BatchId,
  part: Type.Integer({ minimum: 0, maximum: MAX_PART, description: 'The number of the piece: 0, 1, 2 ...' }),
});

export const BatchFailuresQuery = Type.Object(
  { cursor: Type.Optional(Cursor), limit: Type.Optional(Limit) },
  { additionalProperties: false },
);
