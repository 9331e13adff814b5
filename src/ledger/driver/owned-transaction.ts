import type { QueryResult } from 'pg';
import { type Queryable, run, statement } from './statement.ts';

const CURRENT = statement('open_transaction', 'SELECT pg_current_xact_id_if_assigned()::text AS transaction_id');

/** Returns the id of the open transaction of `client`, or null if it has none or the transaction has not written anything. */
export async function currentTransaction(client: Queryable): Promise<string | null> {
  const [row] = await run<{ transaction_id: string | null }>(client, CURRENT);
  return row?.transaction_id ?? null;
}

/** Members that node-postgres clients have and other clients may lack. */
type ClientState = { release?: unknown; getTransactionStatus?(): string | null };

/**
 * A user's transaction that holds the row lock of a running job. While it is open, statements about that job run on it, because on any
 * other connection they would wait for its lock.
 *
 * The client may have been returned to its pool and may serve other code by now. `isOpen` excludes the cases that the client knows
 * about. A statement that takes `id` as a parameter also compares it on the server, and does nothing in another transaction.
 */
export class OwnedTransaction implements Queryable {
  readonly id: string;
  /** The job ends with the commit, so it can no longer be written to. */
  readonly completesJob: boolean;
  readonly client: Queryable;
  readonly #release: unknown;
  #last: Promise<unknown> = Promise.resolve();

  constructor(client: Queryable, id: string, completesJob = false) {
    this.id = id;
    this.completesJob = completesJob;
    this.client = client;
    this.#release = (client as ClientState).release;
  }

  /** False if the transaction has ended; true if it is open as far as the client knows. */
  get isOpen(): boolean {
    const client = this.client as ClientState;
    // A pool assigns a new `release` to the client each time it is checked out.
    return client.release === this.#release && client.getTransactionStatus?.() !== 'I';
  }

  query(config: { name?: string; text: string; values?: unknown[] }): Promise<QueryResult> {
    if (!this.isOpen) return Promise.reject(new Error('The transaction that held the job has ended.'));
    return this.client.query(config);
  }

  /** Runs `work` alone, after the work before it. Concurrent callers share one transaction and one set of savepoints. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** Runs `work` so that its failure undoes only its own writes and leaves the transaction usable. Call it within `inTurn`. */
  async withSavepoint<T>(work: () => Promise<T>): Promise<T> {
    await this.query({ text: 'SAVEPOINT millrace_step' });
    try {
      const result = await work();
      await this.query({ text: 'RELEASE SAVEPOINT millrace_step' });
      return result;
    } catch (error) {
      await this.query({ text: 'ROLLBACK TO SAVEPOINT millrace_step' }).catch(() => {});
      await this.query({ text: 'RELEASE SAVEPOINT millrace_step' }).catch(() => {});
      throw error;
    }
  }
}

/** True if the statement was not sent, because the client is closed or its connection was already lost. */
export const isNeverSent = (error: unknown): boolean => error instanceof Error && /not queryable/.test(error.message);
