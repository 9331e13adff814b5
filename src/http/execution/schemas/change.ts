import { Type } from 'typebox';
import { EXECUTION_STATES } from '../../../core/execution/states.ts';
import { shape, timestamp, word } from '../../shared/shapes.ts';

const CHANGE = {
  job_id: Type.String({ format: 'uuid', description: 'The id of the job.' }),
  state: word(EXECUTION_STATES, 'The state the job is in now.'),
  updated_at: timestamp('When the job entered that state.'),
};

export const ExecutionChange = shape('ExecutionChange', CHANGE, {
  description: 'A job after an action. It is unchanged if there was nothing to do.',
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
      description: 'The number of the current attempt: 1 at first, one more with each retry.',
    }),
  },
  {
    description: 'A job after a retry. It is unchanged if it had not failed.',
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
