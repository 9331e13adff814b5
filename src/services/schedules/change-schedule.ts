import type { Owner } from '../../core/owner.ts';
import type { Submission } from '../../core/submission.ts';
import type { Engine } from '../../engine/engine.ts';
import type { SubmissionTerms } from '../../engine/submit/prepared.ts';
import { changeSchedule as changeInLedger } from '../../ledger/queues/put-schedule.ts';
import { type LockedSchedule, lockSchedule, type Schedule } from '../../ledger/queues/schedules.ts';
import { auditSchedule } from './audit-schedule.ts';
import { type Author, checkReason, mayBeKey, readSchedule, type ScheduleRequest } from './schedule-request.ts';

/** The members to change. A member that is absent keeps its value; null in the submission clears it. */
export type ScheduleChange = Partial<Omit<ScheduleRequest, 'submission'>> & { submission?: Partial<Submission> };

export type ChangeScheduleParams = Owner & Author & { key: string; change: ScheduleChange; terms?: SubmissionTerms };

/**
 * Changes a schedule. Returns it, or null if the owner has none with this key. The next scheduled run stays the same, unless the cron
 * expression or the time zone changes, or the schedule is resumed. Runs that came due while it was paused do not happen.
 */
export async function changeSchedule(engine: Engine, params: ChangeScheduleParams): Promise<Schedule | null> {
  const { orgId, key, reason, actor } = params;
  checkReason(reason);
  if (!mayBeKey(key)) return null;
  return engine.writer.transact(orgId, async (client) => {
    const locked = await lockSchedule(client, params, key);
    if (locked === null) return null;
    const { schedule, isPaused } = await changed(engine, locked, params);
    const done = await changeInLedger(client, { orgId, schedule, isPaused, actor, reason: reason === '' ? null : reason });
    const { paused } = params.change;
    const facts = { members: Object.keys(params.change), ...(paused === undefined ? {} : { paused }) };
    await auditSchedule(client, done, { event: 'changed', by: params, ...facts });
    return done;
  });
}

async function changed(engine: Engine, { schedule: old, now }: LockedSchedule, { orgId, change, terms }: ChangeScheduleParams) {
  const { paused, submission, ...rest } = change;
  const wasPaused = old.pausedAt !== null;
  const isPaused = paused ?? wasPaused;
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)) as typeof rest;
  const { key, cron, timeZone, missed, overlap } = old;
  const request = { key, cron, timeZone, missed, overlap, ...given, submission: merged(old.submission as Submission, submission) };
  const isSame = request.cron === cron && request.timeZone === timeZone && !(wasPaused && !isPaused);
  // A schedule that is only paused or resumed is not judged again: the job types and queues of its time may be gone.
  const isJudged = submission !== undefined || Object.keys(given).length > 0;
  const read = isJudged || !isSame ? await readSchedule(engine, { ...request, paused: isPaused }, { orgId, now, terms }) : old;
  return { schedule: { ...read, nextAt: isSame ? old.nextAt : read.nextAt }, isPaused };
}

/** Null clears a member, except of the payload, whose value it may be. */
function merged(old: Submission, change: Partial<Submission> = {}): Submission {
  const members = Object.entries({ ...old, ...change }).filter(([name, value]) => name === 'payload' || value != null);
  return Object.fromEntries(members) as unknown as Submission;
}
