import type pg from 'pg';

/**
 * Makes the ledger's clock stand at a time of the caller's, for everyone in this database. Only for databases that belong to
 * one test: nothing comes due there any more until the clock is set anew.
 */
export async function stopClockAt(pool: pg.Pool, at: Date): Promise<void> {
  await pool.query(`CREATE OR REPLACE FUNCTION millrace.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS $$SELECT timestamptz '${at.toISOString()}'$$`);
}
