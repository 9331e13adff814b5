import type pg from 'pg';
import { isContended } from './statement.ts';

export type Attempt<T> = { kind: 'done'; value: T } | { kind: 'contended' } | { kind: 'failed'; error: unknown };

/**
 * Runs a part of a transaction that may fail without the rest. What it wrote is rolled back if it throws. If the connection is lost, the
 * rollback throws too, and with it the transaction ends.
 */
export async function inSavepoint<T>(client: pg.PoolClient, work: () => Promise<T>): Promise<Attempt<T>> {
  await client.query('SAVEPOINT part');
  try {
    // The savepoint is not released: the next one hides it, and the end of the transaction removes all.
    return { kind: 'done', value: await work() };
  } catch (error) {
    await client.query('ROLLBACK TO SAVEPOINT part');
    return isContended(error) ? { kind: 'contended' } : { kind: 'failed', error };
  }
}
