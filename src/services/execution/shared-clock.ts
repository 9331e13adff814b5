import { readClock } from '../../ledger/driver/clock.ts';
import type { Database } from '../../ledger/driver/database.ts';

const readings = new WeakMap<Database, Promise<Date>>();

/** The ledger's time. Whoever asks while an answer is on its way shares it, so that a crowd takes one connection, not all. */
export function sharedClock(database: Database): Promise<Date> {
  const underWay = readings.get(database);
  if (underWay !== undefined) return underWay;
  const reading = readClock(database.api).finally(() => readings.delete(database));
  readings.set(database, reading);
  return reading;
}
