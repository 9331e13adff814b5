import { isStorable } from '../../core/bounded-text.ts';
import { AppError } from '../../core/errors.ts';
import type { Submission } from '../../core/submission.ts';
import type { Engine } from '../../engine/engine.ts';
import { firstRun } from '../../engine/upkeep/scheduler.ts';
import { readClock } from '../../ledger/driver/clock.ts';
import { type Missed, putSchedule, type Schedule } from '../../ledger/queues/schedules.ts';
import { invalidSubmission } from './submission-result.ts';

export type ScheduleParams = {
  orgId: string;
  key: string;
  /** Five or six fields, or a nickname such as `@daily`. */
  cron: string;
  timeZone?: string;
  /** What becomes of times that passed while no process was there: drop them, run once, or run each. */
  missed?: Missed;
  submission: Submission;
};

const MAX_KEY = 200;

/** Submits a job again and again. Announced a second time under its key, the schedule is replaced and keeps its place in time. */
export async function scheduleJob(engine: Engine, params: ScheduleParams): Promise<Schedule> {
  const { orgId, key, cron, timeZone = 'UTC', missed = 'one', submission } = params;
  if (typeof key !== 'string' || key.length < 1 || key.length > MAX_KEY) {
    throw refusal('key', `A schedule's key has 1 to ${MAX_KEY} characters.`);
  }
  if (!isStorable(key)) throw refusal('key', "A schedule's key must be valid Unicode without the NUL character.");
  if (!['none', 'one', 'all'].includes(missed)) throw refusal('missed', `missed is none, one or all, not "${missed}".`);
  // A schedule is kept as JSON, which would make something else of them.
  if (submission?.payload instanceof Uint8Array)
    throw refusal('payload', 'The payload of a schedule is an object, not bytes.');
  const prepared = await engine.submitter.prepare(orgId, submission, null);
  if (!prepared.ok) throw invalidSubmission(prepared.issues);
  const from = await readClock(engine.database.api);
  const nextAt = firstRun({ cron, timeZone, from });
  return putSchedule(engine.database.api, orgId, { key, cron, timeZone, missed, submission, nextAt });
}

const refusal = (field: string, message: string) =>
  new AppError('INVALID_REQUEST', { message, details: [{ field, code: 'INVALID_VALUE', message }] });
