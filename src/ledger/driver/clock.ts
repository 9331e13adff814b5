import type pg from 'pg';
import { type Queryable, run, statement } from './statement.ts';

const CLOCK = statement('clock', 'SELECT millrace.clock() AS now');

/** Returns the database's time, which decides everywhere. */
export async function readClock(db: Queryable): Promise<Date> {
  const [row] = await run<{ now: Date }>(db, CLOCK);
  return new Date((row as { now: Date }).now);
}

/** Replaces the ledger's clock for every session of this database. `text` is SQL that makes a time of the real one. */
export async function replaceClock(db: Pick<pg.Pool, 'query'>, text: (now: string) => string): Promise<void> {
  await db.query(`CREATE OR REPLACE FUNCTION millrace.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS $clock$ SELECT ${text('pg_catalog.statement_timestamp()')} $clock$;
  CREATE OR REPLACE FUNCTION millrace.clock_after_snapshot() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $clock$ SELECT ${text('pg_catalog.clock_timestamp()')} $clock$`);
}

/**
 * Stops the ledger's clock at a given time. Use it only in a database that belongs to one test: nothing comes due there until the clock
 * is set again.
 */
export async function stopClockAt(pool: pg.Pool, at: Date): Promise<void> {
  await replaceClock(pool, () => `timestamptz '${at.toISOString()}'`);
}
