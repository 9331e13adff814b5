import type pg from 'pg';
import type { Batcher } from '../../ledger/driver/batcher.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { isContended } from '../../ledger/driver/statement.ts';
import { createCallBatcher } from '../call-batcher.ts';

type Work = (client: pg.PoolClient) => Promise<unknown>;

/** Long enough for the statements of Millrace, which hold a job for a moment. */
const BRIEF_MS = 50;
const HELD_MS = 500;

/**
 * Waits for single jobs that another transaction holds. It waits on two connections at most, so that callers of other
 * jobs always find one.
 */
export class HeldJobs {
  readonly #database: Database;
  readonly #waiting: Batcher<Work, unknown>;

  constructor({ database }: { database: Database }) {
    this.#database = database;
    this.#waiting = createCallBatcher<Work, unknown>({
      send: async ([work]) => [await inTransaction(database.api, work as Work, { lockTimeoutMs: HELD_MS })],
      busy: 'Too many requests wait for jobs that other transactions hold. Try again in a moment.',
      maxItems: 1,
      maxWaiting: 200,
      maxWaitMs: 1_500,
    });
  }

  /** Runs work on a job that another transaction may hold. */
  async run<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    try {
      return await inTransaction(this.#database.api, work, { lockTimeoutMs: BRIEF_MS });
    } catch (error) {
      if (!isContended(error)) throw error;
      return this.wait(work);
    }
  }

  /** Runs work on a job that another transaction holds. If it is not released in time, the caller gets UNAVAILABLE. */
  wait<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return this.#waiting.add(work) as Promise<T>;
  }
}
