import { isStorable } from '../../core/bounded-text.ts';
import { invalidRequest } from '../../core/errors.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import type { Submission } from '../../core/submission.ts';
import type { Engine } from '../../engine/engine.ts';
import { firstRun } from '../../engine/upkeep/scheduler.ts';
import { readClock } from '../../ledger/driver/clock.ts';
import {
  listSchedules as listInLedger,
  type Missed,
  putSchedule,
  removeSchedule as removeFromLedger,
  type Schedule,
} from '../../ledger/queues/schedules.ts';
import { prepareSubmission } from './prepare-submission.ts';
import { invalidSubmission } from './submission-result.ts';

export type ScheduleRequest = {
  /** Five or six fields, or a nickname such as `@daily`. */
  cron: string;
  timeZone?: string;
  /** How many jobs to submit for times that passed while no process was running: none, one, or one for each time. */
  missed?: Missed;
  submission: Submission;
};

const MEMBERS = membersOf<ScheduleRequest>({ cron: true, timeZone: true, missed: true, submission: true });

type ScheduleParams = { orgId: string; key: string; schedule: ScheduleRequest };

const MAX_KEY = 200;

/** Submits a job repeatedly, by cron expression. A second call with the same key replaces the schedule. */
export async function scheduleJob(engine: Engine, params: ScheduleParams): Promise<Schedule> {
  const { orgId, key, schedule } = params;
  checkMembers(schedule, MEMBERS, 'schedule');
  const { cron, timeZone = 'UTC', missed = 'one', submission } = schedule;
  if (typeof key !== 'string' || key.length < 1 || key.length > MAX_KEY) {
    throw refusal('key', `The key of a schedule must have 1 to ${MAX_KEY} characters.`);
  }
  if (!isStorable(key)) throw refusal('key', 'The key of a schedule must be valid Unicode without the NUL character.');
  if (!['none', 'one', 'all'].includes(missed)) throw refusal('missed', `missed must be none, one or all, not "${missed}".`);
  // A schedule is stored as JSON, which cannot contain bytes.
  if (submission?.payload instanceof Uint8Array) throw refusal('payload', 'The payload of a schedule must be an object, not bytes.');
  const prepared = await prepareSubmission(engine, { orgId, submission, actor: null });
  if (!prepared.ok) throw invalidSubmission(prepared.issues);
  const from = await readClock(engine.database.api);
  const nextAt = firstRun({ cron, timeZone, from });
  return putSchedule(engine.database.api, orgId, { key, cron, timeZone, missed, submission, nextAt });
}

export const listSchedules = (engine: Engine, { orgId }: { orgId: string }): Promise<Schedule[]> =>
  listInLedger(engine.database.api, orgId);

/** Returns whether there was such a schedule. */
export async function removeSchedule(engine: Engine, { orgId, key }: { orgId: string; key: string }): Promise<boolean> {
  if (typeof key !== 'string') throw refusal('key', 'The key of a schedule must be a string.');
  return isStorable(key) && removeFromLedger(engine.database.api, orgId, key);
}

const refusal = (field: string, message: string) => invalidRequest({ field, code: 'INVALID_VALUE', message });
