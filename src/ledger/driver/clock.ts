import { type Queryable, run, statement } from './statement.ts';

const CLOCK = statement('clock', 'SELECT millrace.clock() AS now');

/** The time by the only clock that counts. */
export async function readClock(db: Queryable): Promise<Date> {
  const [row] = await run<{ now: Date }>(db, CLOCK);
  return new Date((row as { now: Date }).now);
}
