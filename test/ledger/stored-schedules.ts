/** Schedules in the ledger, written as a door writes them. */
import { wholeOrg } from '../../src/core/owner.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { putSchedule } from '../../src/ledger/queues/put-schedule.ts';
import { listSchedules, type Schedule, type ScheduleToPut } from '../../src/ledger/queues/schedules.ts';

export type ScheduleToStore = Omit<ScheduleToPut, 'overlap'> & Partial<Pick<ScheduleToPut, 'overlap'>>;

export async function storeSchedule(db: Queryable, orgId: string, schedule: ScheduleToStore): Promise<Schedule> {
  const author = { actor: null, reason: null };
  const put = await putSchedule(db, {
    owner: wholeOrg(orgId),
    schedule: { overlap: 'queue', ...schedule },
    isPaused: null,
    most: null,
    ...author,
  });
  if (!('schedule' in put)) throw new Error(`The schedule was not written: ${put.kind}`);
  return put.schedule;
}

export const storedSchedules = async (db: Queryable, orgId: string): Promise<Schedule[]> =>
  (await listSchedules(db, wholeOrg(orgId), { limit: 1_000, cursor: null })).schedules;
