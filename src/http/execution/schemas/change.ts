import { Type } from 'typebox';
import { EXECUTION_STATES } from '../../../core/execution/states.ts';
import { shape, timestamp, word } from '../../shared/shapes.ts';

const CHANGE = {
  job_id: Type.String({ format: 'uuid' }),
  state: word(EXECUTION_STATES, 'The state the job is in now.'),
  updated_at: timestamp('When it came into that state.'),
};

export const ExecutionChange = shape('ExecutionChange', CHANGE, {
  description: 'A job after an action on it; unchanged when there was nothing to do.',
  examples: [
    {
      job_id: '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11',
      state: 'CANCELED',
      updated_at: '2024-01-15T10:30:00.000Z',
    },
  ],
});

export const ExecutionRetried = shape(
  'ExecutionRetried',
  {
    ...CHANGE,
    attempt: Type.Integer({
      minimum: 1,
      description: 'The attempt that was granted last: 1 at first, one more with each retry.',
    }),
  },
  {
    description: 'A job after a retry; unchanged when it had not failed.',
    examples: [
      {
        job_id: '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11',
        state: 'QUEUED',
        updated_at: '2024-01-15T10:30:00.000Z',
        attempt: 2,
      },
    ],
  },
);

export const CHANGE_SHAPES = [ExecutionChange, ExecutionRetried];
