import type pg from 'pg';
import { type Queryable, run, statement } from './statement.ts';

const CLOCK = statement('clock', 'SELECT millrace.clock() AS now');

/** Returns the database's time, which decides everywhere. */
export async function readClock(db: Queryable): Promise<Date> {
  const [row] = await run<{ now: Date }>(db, CLOCK);
  return new Date((row as { now: Date }).now);
}

/**
 * Stops the ledger's clock at a given time, for every session of this database. Use it only in a database that belongs to one test:
 * nothing comes due there until the clock is set again.
 */
export async function stopClockAt(pool: pg.Pool, at: Date): Promise<void> {
  await pool.query(`CREATE OR REPLACE FUNCTION millrace.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS $$SELECT timestamptz '${at.toISOString()}'$$`);
}
