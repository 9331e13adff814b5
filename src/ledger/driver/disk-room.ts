import type pg from 'pg';
import { inTransaction } from './database.ts';
import { forgetDiskFull, isDiskFull, msSinceDiskFull, run, statement } from './statement.ts';

/** A disk that was full a moment ago is still full: a small file may fit where the pages of a table do not. */
const STILL_FULL_MS = 5_000;

// With so little memory the server keeps the rows in a temporary file of some megabytes. It leaves nothing behind, not even in the log.
const LITTLE_MEMORY = statement('probe_memory', `SELECT set_config('work_mem', '64kB', true)`);
const FILL_A_FILE = statement('probe_disk', 'SELECT count(*)::int4 AS rows FROM generate_series(1, 100000)');

/**
 * Whether the disk of the database is full, as far as this process can tell. Reading works on a full disk, so the question arises only
 * after a write has failed, and is then answered by writing a temporary file.
 */
export async function isDiskFullNow(pool: pg.Pool): Promise<boolean> {
  const sinceMs = msSinceDiskFull();
  if (sinceMs < STILL_FULL_MS) return true;
  if (!Number.isFinite(sinceMs)) return false;
  try {
    await inTransaction(pool, async (client) => {
      await run(client, LITTLE_MEMORY);
      await run(client, FILL_A_FILE);
    });
    forgetDiskFull();
    return false;
  } catch (error) {
    if (isDiskFull(error)) return true;
    throw error;
  }
}
