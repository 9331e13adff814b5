import { type Queryable, run, statement } from './statement.ts';

// These commands cannot be prepared.
const BEGIN = { text: 'SAVEPOINT millrace_best_effort' };
const RELEASE = { text: 'RELEASE SAVEPOINT millrace_best_effort' };
const UNDO = { text: 'ROLLBACK TO SAVEPOINT millrace_best_effort' };

// Another open transaction may hold the same key. The caller's own writes must not wait for it for long.
const BE_BRIEF = statement(
  'be_brief',
  `WITH before AS MATERIALIZED (SELECT current_setting('lock_timeout') AS lock_timeout)
   SELECT before.lock_timeout AS "lockTimeout", set_config('lock_timeout', '2s', true) FROM before`,
);
const BE_PATIENT = statement('be_patient', `SELECT set_config('lock_timeout', $1::text, true)`);

/**
 * Runs `work` in the caller's transaction under a savepoint. If it fails, its writes are undone, the error is thrown, and the transaction
 * can go on as if nothing had happened.
 */
export async function asBestEffort<T>(client: Queryable, work: () => Promise<T>): Promise<T> {
  await client.query(BEGIN);
  try {
    const [before] = await run<{ lockTimeout: string }>(client, BE_BRIEF);
    const result = await work();
    await run(client, BE_PATIENT, [before?.lockTimeout ?? '0']);
    await client.query(RELEASE);
    return result;
  } catch (error) {
    // This also restores the setting. If the connection is lost, the caller's commit reports it.
    await client.query(UNDO).catch(() => {});
    await client.query(RELEASE).catch(() => {});
    throw error;
  }
}
