import { invalidRequest } from '../../core/errors.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { CronTimes } from '../../engine/upkeep/cron-times.ts';
import { readClock } from '../../ledger/driver/clock.ts';
import { readSchedule } from './read-schedules.ts';

export const MAX_NEXT_RUNS = 100;
export const DEFAULT_NEXT_RUNS = 10;

/**
 * Returns the next times of a schedule after now, as if it were not paused, or null if the owner has none with this key. There may be
 * fewer than `count`, because some expressions end with a year.
 */
export async function nextRuns(
  engine: Engine,
  { count = DEFAULT_NEXT_RUNS, ...params }: Owner & { key: string; count?: number },
): Promise<Date[] | null> {
  if (!Number.isInteger(count) || count < 1 || count > MAX_NEXT_RUNS)
    throw invalidRequest({ field: 'count', code: 'OUT_OF_RANGE', message: `count must be an integer from 1 to ${MAX_NEXT_RUNS}` });
  const schedule = await readSchedule(engine, params);
  if (schedule === null) return null;
  const cron = new CronTimes(schedule);
  const times: Date[] = [];
  for (let at = cron.next(await readClock(engine.database.api)); at !== null && times.length < count; at = cron.next(at)) times.push(at);
  return times;
}
