import { Type } from 'typebox';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { STATE_WORD_LIST } from '../words.ts';
import { LINE } from './log.ts';
import { JobId, JobType, State, shape, stateOrNull, textOrNull, timestamp, word } from './shapes.ts';

const MAX_WORDS = 100;
const MAX_CURSOR = 200;

export const JobEvent = shape(
  'JobEvent',
  {
    job_id: JobId,
    type: JobType,
    from_state: stateOrNull('The state before. Null for the first transition of a waiting job.'),
    to_state: State,
    timestamp: timestamp('When it happened.'),
    reason: Type.String({ description: 'Why it happened.', examples: ['started', 'manual_retry'] }),
    attempt: Type.Integer({ minimum: 1, description: 'The current attempt, from 1.' }),
    sequence: Type.Integer({
      minimum: 1,
      description: 'The position of the event in the history of its job: 1, 2, 3 ...',
    }),
  },
  {
    description: 'The data of an event named job.<state>, for example job.completed.',
    examples: [
      {
        job_id: '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11',
        type: 'email',
        from_state: 'RUNNING',
        to_state: 'COMPLETED',
        timestamp: '2024-01-15T10:30:00.250Z',
        reason: 'succeeded',
        attempt: 1,
        sequence: 3,
      },
    ],
  },
);

export const ProgressEvent = shape(
  'ProgressEvent',
  {
    job_id: JobId,
    type: JobType,
    percent: Type.Integer({ minimum: 0, maximum: 100, description: 'How much of the work is done.' }),
    message: textOrNull('What the handler is doing.'),
    attempt: Type.Integer({ minimum: 1, description: 'The attempt that reported it, from 1.' }),
    timestamp: timestamp('When the handler reported it.'),
  },
  { description: 'The data of an event named job.progress. It has no id, and only the newest progress of a job is sent.' },
);

export const LogEvent = shape(
  'LogEvent',
  { job_id: JobId, type: JobType, ...LINE },
  { description: 'The data of an event named job.log. It has an id on the stream of one job.' },
);

export const StreamError = shape(
  'StreamError',
  {
    code: Type.String({ description: 'Why the stream ends.', examples: ['SLOW_CONSUMER', 'SHUTTING_DOWN'] }),
    message: Type.String({ description: 'The same, for people.' }),
    last_event_id: Type.String({ description: 'Where to resume.' }),
  },
  { description: 'The data of an event named error, the last of a stream.' },
);

const LastEventId = Type.String({
  maxLength: MAX_CURSOR,
  description: 'The id of the last received event. The stream continues after it.',
});

const Include = Type.Array(word(['progress', 'log']), {
  maxItems: 10,
  description: 'Also send events named job.progress or job.log. Repeat for both.',
});

export const JobEventQuery = Type.Object(
  { include: Type.Optional(Include), last_event_id: Type.Optional(LastEventId) },
  { additionalProperties: false },
);

export const ResumeHeaders = Type.Object({ 'last-event-id': Type.Optional(LastEventId) });

export const EventQuery = Type.Object(
  {
    type: Type.Optional(
      Type.Array(Type.String({ maxLength: FIELD_LIMITS.type }), {
        maxItems: MAX_WORDS,
        description: 'Only jobs of this type. Repeat for several.',
      }),
    ),
    state: Type.Optional(
      Type.Array(word(STATE_WORD_LIST), {
        maxItems: MAX_WORDS,
        description: 'Only changes to this state. Repeat for several.',
      }),
    ),
    job_id: Type.Optional(Type.Array(JobId, { maxItems: MAX_WORDS, description: 'Only this job. Repeat for several.' })),
    include: Type.Optional(Include),
    last_event_id: Type.Optional(LastEventId),
  },
  { additionalProperties: false },
);
