import pg from 'pg';

/**
 * Runs the work while a transaction holds what the statement locks. Sessions of ours end a transaction that is idle for three
 * seconds, which a busy machine may need for the work; this one lasts.
 */
export async function whileHolding<T>(
  { url, text, values }: { url: string; text: string; values?: unknown[] },
  work: () => Promise<T>,
): Promise<T> {
  const holder = new pg.Client({ connectionString: url });
  holder.on('error', () => {});
  await holder.connect();
  try {
    await holder.query('BEGIN');
    await holder.query(text, values);
    const result = await work();
    await holder.query('COMMIT');
    return result;
  } finally {
    await holder.end();
  }
}

export const LOCK_JOBS = 'LOCK TABLE millrace.jobs IN ACCESS EXCLUSIVE MODE';
