import type { Static } from 'typebox';
import { invalidRequest } from '../../core/errors.ts';
import type { Submission } from '../../core/submission.ts';
import { invalidSubmission } from '../../services/jobs/submission-result.ts';
import type { ScheduleChange as Change } from '../../services/schedules/change-schedule.ts';
import type { ScheduleRequest } from '../../services/schedules/schedule-request.ts';
import type { Identity } from '../shared/identity.ts';
import { readSubmission } from './read-submission.ts';
import type { ScheduleChange, ScheduleReplacement } from './schemas/schedule.ts';

type Given = Static<typeof ScheduleReplacement>;

/** A schedule as the service takes it. Throws FORBIDDEN for a job that the key does not permit. */
export function readReplacement(body: Given, key: string, identity: Identity): ScheduleRequest {
  const { key: repeated = key, cron, reason: _, ...rest } = body;
  if (repeated !== key)
    throw invalidRequest({ field: 'key', code: 'INVALID_VALUE', message: 'key must be the key of the path, or absent' });
  const { rules, job } = split(rest);
  // All members are replaced, so a schedule that was paused is resumed unless the request says otherwise.
  return { ...rules, cron, paused: rules.paused ?? false, submission: jobOf(job, identity) };
}

const DEFAULTS = { timeZone: 'UTC', missed: 'one', overlap: 'queue' } as const;

/** The members to change. Null resets a member. */
export function readChange(body: Static<typeof ScheduleChange>, identity: Identity): Change {
  const { cron, reason: _, time_zone, missed, overlap, paused, ...job } = body;
  const change: Change = {
    ...(cron === undefined ? {} : { cron }),
    ...(time_zone === undefined ? {} : { timeZone: time_zone ?? DEFAULTS.timeZone }),
    ...(missed === undefined ? {} : { missed: missed ?? DEFAULTS.missed }),
    ...(overlap === undefined ? {} : { overlap: overlap ?? DEFAULTS.overlap }),
    ...(paused === undefined ? {} : { paused: paused ?? false }),
  };
  return Object.keys(job).length === 0 ? change : { ...change, submission: jobOf(job, identity) };
}

type Rest = Omit<Given, 'key' | 'cron' | 'reason'>;

function split({ time_zone, missed, overlap, paused, ...job }: Rest) {
  const rules = {
    timeZone: time_zone ?? undefined,
    missed: missed ?? undefined,
    overlap: overlap ?? undefined,
    paused: paused ?? undefined,
  };
  return { rules, job };
}

/** The trace of the request belongs to the request, and not to the jobs of every run. */
function jobOf(job: object, identity: Identity): Submission {
  const { submission, issues } = readSubmission(job, { identity, traceparent: null });
  if (issues.length > 0) throw invalidSubmission(issues);
  return submission;
}
