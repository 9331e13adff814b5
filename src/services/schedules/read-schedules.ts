import { invalidRequest } from '../../core/errors.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { findSchedule, listSchedules as listInLedger, type Schedule } from '../../ledger/queues/schedules.ts';
import { mayBeKey } from './schedule-request.ts';

const MAX_SCHEDULE_PAGE = 1_000;
const DEFAULT_SCHEDULE_PAGE = 100;

/** Returns a schedule, or null if the owner has none with this key. */
export async function readSchedule(engine: Engine, { key, ...owner }: Owner & { key: string }): Promise<Schedule | null> {
  return mayBeKey(key) ? findSchedule(engine.database.reads.of(owner.orgId), owner, key) : null;
}

/** A page of schedules. */
export type ScheduleList = {
  /** In the order of their keys. */
  schedules: Schedule[];
  /** Where the next page begins. Null for the last page. */
  nextCursor: string | null;
};

/** Returns a page of schedules in the order of their keys. A page with large jobs may have fewer schedules than `limit`. */
export async function listSchedules(
  engine: Engine,
  { limit = DEFAULT_SCHEDULE_PAGE, cursor = null, ...owner }: Owner & { limit?: number; cursor?: string | null },
): Promise<ScheduleList> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_SCHEDULE_PAGE)
    throw invalidRequest({ field: 'limit', code: 'OUT_OF_RANGE', message: `limit must be an integer from 1 to ${MAX_SCHEDULE_PAGE}` });
  return listInLedger(engine.database.reads.of(owner.orgId), owner, { limit, cursor });
}

/** Returns all schedules of an owner. */
export async function allSchedules(engine: Engine, owner: Owner): Promise<Schedule[]> {
  const all: Schedule[] = [];
  let cursor: string | null = null;
  do {
    const page: ScheduleList = await listSchedules(engine, { ...owner, limit: MAX_SCHEDULE_PAGE, cursor });
    all.push(...page.schedules);
    cursor = page.nextCursor;
  } while (cursor !== null);
  return all;
}
