import { Type } from 'typebox';
import { LOG_LEVELS } from '../../../core/job-log.ts';
import { Cursor, JobId, Limit, named, shape, textOrNull, timestamp, word } from './shapes.ts';

export const LINE = {
  level: word(LOG_LEVELS, 'How serious the line is.'),
  message: Type.String({ description: 'At most 8 KB; a longer message was cut.' }),
  fields: Type.Unsafe<Record<string, unknown>>({
    type: 'object',
    additionalProperties: true,
    description: 'What the handler gave in addition to the message.',
  }),
  attempt: Type.Integer({ minimum: 1, description: 'The attempt that logged it, from 1.' }),
  timestamp: timestamp('When the handler logged it.'),
};

export const JobLogLine = shape('JobLogLine', LINE, { description: 'A line that the handler of a job logged.' });

export const JobLogs = shape(
  'JobLogs',
  {
    job_id: JobId,
    lines: Type.Array(named(JobLogLine), { description: 'Oldest first.' }),
    next_cursor: textOrNull('The cursor of the lines after these. Null if there are none now; a running job may log more.'),
  },
  { description: 'A page of the lines of a job.' },
);

export const LogsQuery = Type.Object(
  {
    level: Type.Optional(Type.Array(word(LOG_LEVELS), { maxItems: 10, description: 'Only lines of this level. Repeat for several.' })),
    cursor: Type.Optional(Cursor),
    limit: Type.Optional(Limit),
  },
  { additionalProperties: false },
);
