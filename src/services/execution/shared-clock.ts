import { readClock } from '../../ledger/driver/clock.ts';
import type { Database } from '../../ledger/driver/database.ts';

const readings = new WeakMap<Database, Promise<Date>>();

/** The clock of the database. Concurrent callers share one read, so that they use one connection. */
export function sharedClock(database: Database): Promise<Date> {
  const underWay = readings.get(database);
  if (underWay !== undefined) return underWay;
  const reading = readClock(database.api).finally(() => readings.delete(database));
  readings.set(database, reading);
  return reading;
}
