import { type TSchema, Type } from 'typebox';
import { PRIORITIES } from '../../../core/priority.ts';
import { MISSED, OVERLAPS } from '../../../core/schedule-words.ts';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { DEFAULT_NEXT_RUNS, MAX_NEXT_RUNS } from '../../../services/schedules/next-runs.ts';
import { MAX_CRON, MAX_SCHEDULE_KEY, MAX_TIME_ZONE } from '../../../services/schedules/schedule-request.ts';
import { JobId, Limit, named, Payload, shape, Tags, textOrNull, timestamp, timestampOrNull, word, wordOrNull } from './shapes.ts';
import { absentOrNull, BackoffConfig, JobLimit, JobSubmission, optionalText } from './submission.ts';

const KEY = { minLength: 1, maxLength: MAX_SCHEDULE_KEY, examples: ['nightly-report'] };

export const ScheduleParams = Type.Object({ key: Type.String({ description: 'The key of the schedule, percent-encoded.' }) });

const Key = Type.String({ ...KEY, description: 'The name of the schedule, unique in the org. Not "." or "..".' });
const Cron = Type.String({
  minLength: 1,
  maxLength: MAX_CRON,
  description: 'Five fields (minute, hour, day, month, weekday), six with seconds first, or a name such as @daily.',
  examples: ['30 2 * * *'],
});
const Missed = word(
  MISSED,
  'How many jobs to submit for runs that came due while no process ran: none, one for all, or all. Default: one.',
);
const Overlap = word(
  OVERLAPS,
  'What a run does while the job of an earlier run has not ended: skip this run, queue its job too, or replace the earlier job, which is cancelled. Default: queue.',
);
const TimeZone = Type.String({
  minLength: 1,
  maxLength: MAX_TIME_ZONE,
  description:
    'The zone of the cron expression. A time that its clocks skip comes at the end of the gap; one that they show twice comes once, the first time. Default: UTC.',
  examples: ['Europe/Berlin'],
});
const Paused = Type.Boolean({ description: 'Whether the schedule submits no jobs for now. Default: false.' });
const Reason = optionalText('Why you make this change.', FIELD_LIMITS.reason);

const { type, payload, priority, delay, timeout, lifetime, max_attempts, backoff } = JobSubmission.properties;
const { correlation_id, tags, callback_url, queue, limit, category, project_id } = JobSubmission.properties;

/** The members of a submission that each job of a schedule has. A run has its own key and its own time. */
const JOB = {
  priority,
  delay,
  timeout,
  lifetime,
  max_attempts,
  backoff,
  correlation_id,
  tags,
  callback_url,
  queue,
  limit,
  category,
  project_id,
};

const RULES = {
  time_zone: absentOrNull(TimeZone),
  missed: absentOrNull(Missed),
  overlap: absentOrNull(Overlap),
  paused: absentOrNull(Paused),
  reason: Reason,
};

const EXAMPLE = { type: 'report', payload: { region: 'north' }, cron: '30 2 * * *', time_zone: 'Europe/Berlin', overlap: 'skip' };

export const NewSchedule = shape(
  'NewSchedule',
  { key: Key, cron: Cron, type, payload, ...RULES, ...JOB },
  {
    description: 'A schedule to create, with the job of each run. Null counts as absent.',
    examples: [{ key: 'nightly-report', ...EXAMPLE }],
  },
);

export const ScheduleReplacement = shape(
  'ScheduleReplacement',
  {
    key: Type.Optional(Type.String({ ...KEY, description: 'If given, the key of the path.' })),
    cron: Cron,
    type,
    payload,
    ...RULES,
    ...JOB,
  },
  { description: 'All members of a schedule. A member that is absent or null gets its default.', examples: [EXAMPLE] },
);

export const ScheduleChange = shape(
  'ScheduleChange',
  { cron: Type.Optional(Cron), type: Type.Optional(type), payload: Type.Optional(payload), ...RULES, ...JOB },
  {
    description: 'The members to change. A member that is absent keeps its value; null resets it to its default.',
    examples: [{ paused: true, reason: 'the provider is down' }],
  },
);

const orNull = <T extends TSchema>(schema: T, description: string) => Type.Union([schema, Type.Null()], { description });
const durationOrNull = (description: string) =>
  Type.Unsafe<string | number | null>({ type: ['string', 'integer', 'null'], description: `${description} As it was given.` });

export const Schedule = shape(
  'Schedule',
  {
    key: Type.String({ description: 'The name of the schedule.' }),
    type: Type.String({ description: 'The type of its jobs.' }),
    payload: { ...Payload, description: 'The payload of its jobs.' } as typeof Payload,
    cron: Type.String({ description: 'When it submits a job.' }),
    time_zone: Type.String({ description: 'The zone of the cron expression.' }),
    missed: word(MISSED, 'How many jobs it submits for runs that came due while no process ran.'),
    overlap: word(OVERLAPS, 'What a run does while the job of an earlier run has not ended.'),
    paused: Type.Boolean({ description: 'Whether it submits no jobs for now.' }),
    next_at: timestampOrNull('The next run. Null while it is paused, and if its cron expression matches no more times.'),
    last_at: timestampOrNull('The time that its newest job was planned for. Null before the first.'),
    last_job_id: textOrNull('The newest job that it submitted.'),
    last_skipped_at: timestampOrNull('The newest run that was skipped because an earlier job had not ended.'),
    skipped: Type.Integer({ description: 'How many runs were skipped for this reason.' }),
    created_at: timestamp('When it was created.'),
    updated_at: timestamp('When it was last changed.'),
    reason: textOrNull('The reason that was given for the last change.'),
    priority: wordOrNull(PRIORITIES, 'As given; null: the default.'),
    queue: textOrNull('As given; null: the default.'),
    tags: orNull(Tags, 'The labels of its jobs.'),
    delay: durationOrNull('How long its jobs wait after the time of the run.'),
    timeout: durationOrNull('Max execution time of an attempt.'),
    lifetime: durationOrNull('Max time from the submission to the end of a job.'),
    max_attempts: Type.Unsafe<number | null>({ type: ['integer', 'null'], description: 'As given; null: the default.' }),
    backoff: orNull(named(BackoffConfig), 'How long its jobs wait before each retry; null: the default.'),
    correlation_id: textOrNull('As given; null: each job has its own.'),
    callback_url: textOrNull('The URL that is notified when a job has ended.'),
    limit: orNull(named(JobLimit), 'The limit that its jobs share with others; null: the default.'),
    category: textOrNull('Stored and shown with its jobs.'),
    project_id: textOrNull('The project of the org that it and its jobs belong to.'),
  },
  {
    description: 'A schedule, its job, and what it did last.',
    examples: [
      {
        key: 'nightly-report',
        ...EXAMPLE,
        missed: 'one',
        paused: false,
        next_at: '2026-03-29T01:00:00.000Z',
        last_at: '2026-03-28T01:30:00.000Z',
        last_job_id: '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11',
        last_skipped_at: null,
        skipped: 0,
        created_at: '2026-03-01T10:30:00.000Z',
        updated_at: '2026-03-01T10:30:00.000Z',
        reason: null,
        ...{ priority: null, queue: null, tags: null, delay: null, timeout: null, lifetime: null, max_attempts: null, backoff: null },
        ...{ correlation_id: null, callback_url: null, limit: null, category: null, project_id: null },
      },
    ],
  },
);

export const ScheduleList = shape(
  'ScheduleList',
  {
    items: Type.Array(named(Schedule), { description: 'In the order of their keys.' }),
    next_cursor: textOrNull('Where the next page begins. Null for the last page.'),
  },
  { description: 'A page of schedules.' },
);

export const ScheduleListQuery = Type.Object(
  {
    limit: Type.Optional({ ...Limit, description: 'The most schedules of a page. A page of large payloads has fewer.' } as typeof Limit),
    // A key of 200 characters takes up to 1 200 bytes in JSON, and a third more in base64.
    cursor: Type.Optional(Type.String({ description: 'The next_cursor of the previous page. Opaque.', maxLength: 2_000 })),
  },
  { additionalProperties: false },
);

export const ScheduleReason = shape('ScheduleReason', { reason: Reason }, { description: 'Why you do this. Optional.' });

export const ScheduledJob = shape('ScheduledJob', { job_id: JobId }, { description: 'The job that a schedule submitted.' });

export const NextRuns = shape(
  'NextRuns',
  { items: Type.Array(timestamp('A time at which the schedule submits a job.'), { description: 'The next times, earliest first.' }) },
  { description: 'When a schedule runs.' },
);

export const NextRunsQuery = Type.Object(
  {
    count: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_NEXT_RUNS, default: DEFAULT_NEXT_RUNS, description: 'How many times.' })),
  },
  { additionalProperties: false },
);
