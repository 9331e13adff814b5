import { AppError } from '../../core/errors.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import type { SubmissionTerms } from '../../engine/submit/prepared.ts';
import { readClock } from '../../ledger/driver/clock.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { type PutParams, type PutSchedule, putSchedule as putInLedger } from '../../ledger/queues/put-schedule.ts';
import type { Schedule } from '../../ledger/queues/schedules.ts';
import { auditSchedule } from './audit-schedule.ts';
import { type Author, checkReason, readSchedule, type ScheduleRequest } from './schedule-request.ts';

export type PutScheduleParams = Owner &
  Author & {
    key: string;
    schedule: ScheduleRequest;
    /** What the door decides for the jobs of its callers. */
    terms?: SubmissionTerms;
    /** The most schedules that the org may have. Default: no limit. */
    most?: number;
  };

/** Creates a schedule, or replaces the one with the same key. `isNew` says which. */
export async function putSchedule(engine: Engine, params: PutScheduleParams): Promise<{ schedule: Schedule; isNew: boolean }> {
  const toWrite = await toPut(engine, params);
  const put = await inTransaction(
    engine.database.api,
    async (client) => {
      const done = await putInLedger(client, toWrite);
      if (done.kind === 'created') await auditSchedule(client, done.schedule, { event: 'created', by: params });
      else if (done.kind === 'replaced') await auditSchedule(client, done.schedule, { event: 'changed', by: params });
      return done;
    },
    { mayRepeat: true },
  );
  const { key } = params;
  if (put.kind === 'taken') throw conflict(`The key "${key}" belongs to a schedule of another project of the org. Choose another key.`);
  return { schedule: scheduleOf(put, params), isNew: put.kind === 'created' };
}

export async function toPut(engine: Engine, params: PutScheduleParams): Promise<PutParams> {
  const { orgId, projectId, key, actor, reason, terms, most = null } = params;
  checkReason(reason);
  const now = await readClock(engine.database.api);
  const schedule = await readSchedule(engine, { ...params.schedule, key }, { orgId, now, terms });
  return {
    owner: { orgId, projectId },
    schedule,
    isPaused: params.schedule.paused ?? null,
    most,
    actor,
    reason: reason === '' ? null : reason,
  };
}

/** The schedule that was written. Throws QUOTA_EXCEEDED if the org may have no more. */
export function scheduleOf(put: Exclude<PutSchedule, { kind: 'taken' }>, { most = 0 }: PutScheduleParams): Schedule {
  if (put.kind !== 'full') return put.schedule;
  const message = `The org has ${most} schedules, which is the most it may have. Delete one that is not needed, or put several jobs into one.`;
  throw new AppError('QUOTA_EXCEEDED', { message, quota: { limit: 'org_schedules', current: most, maximum: most, retryAfterMs: 60_000 } });
}

export const conflict = (message: string): AppError => new AppError('CONFLICT', { message });
