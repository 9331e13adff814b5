import type pg from 'pg';
import { AppError } from '../../core/errors.ts';
import { type Batcher, createBatcher } from '../../ledger/driver/batcher.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { isContended } from '../../ledger/driver/statement.ts';

type Work = (client: pg.PoolClient) => Promise<unknown>;

/** Long enough for statements of ours, which hold a job for a moment. */
const BRIEF_MS = 50;
const HELD_MS = 500;
const MAX_AT_ONCE = 2;
const MAX_WAITING = 200;
const MAX_WAIT_MS = 1_500;
const RETRY_AFTER_MS = 1_000;

const busy = () =>
  new AppError('UNAVAILABLE', {
    message: 'Too many requests wait for jobs that other transactions hold.',
    retryAfterMs: RETRY_AFTER_MS,
  });

/**
 * What callers want of single jobs that another transaction holds. They wait on two connections at most, so that callers of
 * other jobs always find one.
 */
export class HeldJobs {
  readonly #database: Database;
  readonly #lane: Batcher<Work, unknown>;

  constructor({ database }: { database: Database }) {
    this.#database = database;
    this.#lane = createBatcher<Work, unknown>({
      send: async ([work]) => [await inTransaction(database.api, work as Work, { lockTimeoutMs: HELD_MS })],
      ...{ maxItems: 1, maxInFlight: MAX_AT_ONCE, maxWaiting: MAX_WAITING, overflow: busy },
      ...{ maxWaitMs: MAX_WAIT_MS, expired: busy },
    });
  }

  /** Works on a job that may be held. */
  async run<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    try {
      return await inTransaction(this.#database.api, work, { lockTimeoutMs: BRIEF_MS });
    } catch (error) {
      if (!isContended(error)) throw error;
      return this.wait(work);
    }
  }

  /** Works on a job that is held. If it stays so, the caller is refused with UNAVAILABLE. */
  wait<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return this.#lane.add(work) as Promise<T>;
  }
}
