import { Type } from 'typebox';
import { EVENT_NAMES, EVENT_REASONS } from '../../../core/execution/events.ts';
import { WORK_KINDS } from '../../../core/execution/kinds.ts';
import { EXECUTION_OUTCOMES, EXECUTION_STATES } from '../../../core/execution/states.ts';
import { named, shape, timestamp, timestampOrNull, word, wordOrNull } from '../../shared/shapes.ts';
import { FailureOrNull } from './job.ts';

const EXAMPLE_ID = '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11';

const EXAMPLE_EVENT = {
  event_id: '9a0f7c1e-52a7-8d1b-9a64-0f4c2b7de310',
  job_id: EXAMPLE_ID,
  event_name: 'job.created',
  prev_state: null,
  next_state: 'CREATED',
  timestamp: '2024-01-15T10:30:00.000000Z',
  scenario: 'SUCCESS_FAST',
  attempt: 1,
};

export const ExecutionEvent = shape(
  'ExecutionEvent',
  {
    event_id: Type.String({ description: 'The id of the event, the same in reports and webhooks.' }),
    job_id: Type.String({ description: 'The id of the job.' }),
    event_name: word(EVENT_NAMES, 'What happened.'),
    prev_state: wordOrNull(EXECUTION_STATES, 'Null for the first event.'),
    next_state: word(EXECUTION_STATES, 'The state after the event.'),
    timestamp: Type.String({
      pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{6}Z$',
      description: 'RFC 3339 in UTC with microseconds. Each event of a job is later than the one before.',
      examples: ['2024-01-15T10:30:00.000000Z'],
    }),
    scenario: word(WORK_KINDS, 'The work kind of the job.'),
    attempt: Type.Integer({ minimum: 1, description: 'The attempt that the event belongs to, from 1.' }),
    reason: Type.Optional(word(EVENT_REASONS, 'The reason, if the event has one.')),
    retries_exhausted: Type.Optional(Type.Boolean({ description: 'True if no attempt is left.' })),
  },
  { description: 'One change of state.', examples: [EXAMPLE_EVENT] },
);

export const ExecutionReport = shape(
  'ExecutionReport',
  {
    job_id: Type.String({ description: 'The id of the job.' }),
    outcome: word(EXECUTION_OUTCOMES, 'How the job ended.'),
    events: Type.Array(named(ExecutionEvent), { description: 'Every change of state, oldest first.' }),
    started_at: timestampOrNull('The start of the attempt that decided the outcome; null for a job that never started.'),
    finished_at: timestamp('When the job ended.'),
    duration_ms: Type.Integer({ minimum: 0, description: 'From started_at to finished_at; 0 without a start.' }),
    failure: FailureOrNull,
  },
  {
    description: 'The outcome of a finished job.',
    examples: [
      {
        job_id: EXAMPLE_ID,
        outcome: 'SUCCESS',
        events: [EXAMPLE_EVENT],
        started_at: '2024-01-15T10:30:00.012Z',
        finished_at: '2024-01-15T10:30:01.015Z',
        duration_ms: 1_003,
        failure: null,
      },
    ],
  },
);
