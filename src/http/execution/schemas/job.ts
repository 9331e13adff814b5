import { Type } from 'typebox';
import { EXECUTION_TYPES, EXPECTED_OUTCOMES, WORK_KINDS } from '../../../core/execution/kinds.ts';
import { EXECUTION_OUTCOMES, EXECUTION_STATES } from '../../../core/execution/states.ts';
import { named, shape, textOrNull, timestamp, timestampOrNull, word, wordOrNull } from '../../shared/shapes.ts';

const EXAMPLE_ID = '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11';

const EXAMPLE_DEFINITION = {
  type: 'EXECUTE',
  work_kind: 'SUCCESS_FAST',
  duration_ms: 1_000,
  should_fail: false,
  payload_size: 4_096,
  seed: 1_705_314_600_000,
  execution_at: null,
  expected_outcome: 'SUCCEEDED',
};

export const ExecutionDefinition = shape(
  'ExecutionDefinition',
  {
    type: word(EXECUTION_TYPES, 'When the job runs: see ExecutionSubmission.'),
    work_kind: word(WORK_KINDS, 'As requested, or chosen at random.'),
    duration_ms: Type.Integer({ minimum: 0, description: 'How long an attempt works.' }),
    should_fail: Type.Boolean({ description: 'Whether the work is made to fail.' }),
    payload_size: Type.Integer({ minimum: 0, description: 'The size of the output in bytes.' }),
    seed: Type.Integer({
      description: 'The time of the request in milliseconds. The same seed gives the same random choice.',
    }),
    execution_at: timestampOrNull('As requested.'),
    expected_outcome: word(EXPECTED_OUTCOMES, 'The outcome if the client does what the kind is made for.'),
  },
  { description: 'The work of the job, generated when it was accepted.', examples: [EXAMPLE_DEFINITION] },
);

export const ExecutionFailure = shape(
  'ExecutionFailure',
  {
    code: Type.String({ description: 'For programs.', examples: ['RFA_EXEC_TIMEOUT'] }),
    message: Type.String({ description: 'For people.' }),
    retryable: Type.Boolean({ description: 'Whether another attempt may succeed.' }),
  },
  { description: 'Why the last attempt failed.' },
);

const orNull = <T extends typeof ExecutionDefinition | typeof ExecutionFailure>(schema: T, description: string) =>
  Type.Union([named(schema), Type.Null()], { description });

/** The members of a job in all responses. */
export const JOB_MEMBERS = {
  job_id: Type.String({ description: 'Assigned by the system.', examples: [EXAMPLE_ID] }),
  type: word(EXECUTION_TYPES, 'As submitted.'),
  state: word(EXECUTION_STATES, 'The state the job is in now.'),
  outcome: wordOrNull(EXECUTION_OUTCOMES, 'Null until the state is final.'),
  created_at: timestamp('When the job was accepted.'),
  execution_at: timestampOrNull('The requested time; null for a job that was due immediately.'),
  updated_at: timestamp('When its state last changed.'),
  attempt: Type.Integer({ minimum: 1, description: 'Grows with each retry, from 1.' }),
} as const;

export const TIME_MEMBERS = {
  started_at: timestampOrNull('When the attempt started; null until then.'),
  finished_at: timestampOrNull('When the job ended; null until then.'),
} as const;

export const FailureOrNull = orNull(ExecutionFailure, 'Only for a FAILED job.');

export const ExecutionJob = shape(
  'ExecutionJob',
  {
    ...JOB_MEMBERS,
    callback: textOrNull('The URL that is notified of each change of state.'),
    definition: orNull(ExecutionDefinition, 'Null only if it was lost. Such a job fails when it runs.'),
    ...TIME_MEMBERS,
    progress: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      minimum: 0,
      maximum: 100,
      description: 'Percent; null until the work reports progress.',
    }),
    failure: FailureOrNull,
  },
  {
    description: 'A job as it is now.',
    examples: [
      {
        job_id: EXAMPLE_ID,
        type: 'EXECUTE',
        state: 'SUCCEEDED',
        outcome: 'SUCCESS',
        created_at: '2024-01-15T10:30:00.000Z',
        execution_at: null,
        updated_at: '2024-01-15T10:30:01.015Z',
        attempt: 1,
        callback: null,
        definition: EXAMPLE_DEFINITION,
        started_at: '2024-01-15T10:30:00.012Z',
        finished_at: '2024-01-15T10:30:01.015Z',
        progress: null,
        failure: null,
      },
    ],
  },
);
