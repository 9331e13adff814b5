import type pg from 'pg';
import { type AppError, isAppError } from '../../core/errors.ts';
import type { Engine } from '../../engine/engine.ts';
import { rowHeld } from '../../engine/submit/job-writer.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { isContended, isLockedOut, type Queryable, translated } from '../../ledger/driver/statement.ts';

/** If it gets a client, the work runs in the transaction of that client, and may add `room` jobs. */
export type Work<T> = (client?: pg.ClientBase, room?: number) => Promise<T>;

/** The largest number of jobs that the work adds, and the least room with which it is tried. */
export type Load = { readonly jobs: number; readonly least: number };

export type AdmissionOptions = {
  queueSize: number;
  /** Counts waiting jobs, up to `queueSize`. After `readLocked` no other process admits jobs until the transaction ends. */
  depth: { read(db: Queryable): Promise<number>; readLocked(db: Queryable): Promise<number> };
  full(current: number, cause?: unknown): AppError;
  /** Reports an overflow of the submitter as a full queue. */
  isOverflowFull?: boolean;
};

type Waiter = Load & {
  work: Work<unknown>;
  /** Until this time, work that meets a lock of another transaction is tried again. */
  untilMs: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
};

const ONE: Load = Object.freeze({ jobs: 1, least: 1 });
/** How long a count of the queue is used, for each margin of room that is left. Jobs admitted since are added to it. */
const READING_MS = 200;
/** A slow count is repeated less often, so that counting costs the database at most a twentieth of a core. */
const PAUSE_PER_READING = 20;
/**
 * Within this distance of the limit, jobs are counted under the lock. It covers the jobs that other processes admit while a count is
 * in use, and the jobs in flight while it is taken.
 */
const SMALLEST_MARGIN = 2_000;
const MAX_BATCH = 100;
const MAX_WAITING = 2_000;
/** How long work may wait for a lock of another transaction, which may be a user's. All waiting callers wait with it. */
const LOCK_WAIT_MS = 2;
/** When work that met such a lock is tried again, and for how long. */
const RETRY_MS = 100;
const PATIENCE_MS = 5_000;

/**
 * Admits jobs to the queue while there is room. Far from the limit a recent count is enough, and no caller waits for a new one.
 * Near the limit all processes count under one lock, so that the limit is exact.
 */
export class Admission {
  readonly #engine: Pick<Engine, 'database'>;
  readonly #options: AdmissionOptions;
  readonly #margin: number;
  #depth = 0;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #trustedMs = READING_MS;
  #reading: Promise<void> | null = null;
  readonly #refusals = new WeakSet<AppError>();
  #line: Waiter[] = [];
  #isServing = false;

  constructor(engine: Pick<Engine, 'database'>, options: AdmissionOptions) {
    this.#engine = engine;
    this.#options = options;
    this.#margin = Math.max(SMALLEST_MARGIN, Math.floor(options.queueSize / 10));
  }

  /** Runs the work, or refuses it without running it. */
  admit<T>(work: Work<T>, load: Load = ONE): Promise<T> {
    if (load.jobs === 0) return this.#pass(work);
    if (this.#options.queueSize <= this.#margin) return this.#standInLine(work, load);
    const first = this.#keepReading();
    return first === undefined ? this.#admitByReading(work, load) : first.then(() => this.#admitByReading(work, load));
  }

  #admitByReading<T>(work: Work<T>, load: Load): Promise<T> {
    if (this.#depth + load.jobs + this.#margin > this.#options.queueSize) return this.#standInLine(work, load);
    this.#depth += load.jobs;
    return this.#pass(work);
  }

  #pass<T>(work: Work<T>): Promise<T> {
    return work().catch((error) => {
      throw this.#explained(error);
    });
  }

  /** The error for work that does not fit in the room it was given. */
  refusal(room: number): AppError {
    return this.#full(this.#options.queueSize - room);
  }

  /** Whether the work was refused because the queue is full. */
  isFull(error: unknown): error is AppError {
    return this.#refusals.has(error as AppError);
  }

  #full(current: number, cause?: unknown): AppError {
    const refusal = this.#options.full(current, cause);
    this.#refusals.add(refusal);
    return refusal;
  }

  /**
   * Only the first count makes a caller wait. This process adds the jobs it admits, so an old count misses only those of other processes.
   * The first request after a pause starts a new count.
   */
  #keepReading(): Promise<void> | undefined {
    if (this.#readAtMs === Number.NEGATIVE_INFINITY) return this.#read();
    if (performance.now() - this.#readAtMs >= this.#trustedMs) this.#read().catch(() => {});
    return undefined;
  }

  /** One count at a time; concurrent callers share it. */
  #read(): Promise<void> {
    this.#reading ??= this.#countUp().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #countUp(): Promise<void> {
    const askedAtMs = performance.now();
    this.#note(await this.#options.depth.read(this.#engine.database.api));
    const room = this.#options.queueSize - this.#depth - this.#margin;
    const tookMs = this.#readAtMs - askedAtMs;
    this.#trustedMs = Math.max(READING_MS, (READING_MS * room) / this.#margin, tookMs * PAUSE_PER_READING);
  }

  #note(depth: number): void {
    this.#depth = depth;
    this.#readAtMs = performance.now();
  }

  #standInLine<T>(work: Work<T>, load: Load): Promise<T> {
    if (this.#line.length >= MAX_WAITING) return Promise.reject(this.#full(this.#depth));
    return new Promise((resolve, reject) => {
      const untilMs = performance.now() + PATIENCE_MS;
      this.#line.push({ ...load, work, untilMs, resolve: resolve as Waiter['resolve'], reject });
      void this.#serve();
    });
  }

  /** Runs one transaction at a time, so that waiting callers do not use up the connections. */
  async #serve(): Promise<void> {
    if (this.#isServing) return;
    this.#isServing = true;
    while (this.#line.length > 0) {
      const batch = this.#line.splice(0, MAX_BATCH);
      await this.#admitExactly(batch).catch((error) => {
        const refusal = isLockedOut(error) ? this.#full(this.#depth, error) : error;
        for (const { reject } of batch) reject(refusal);
      });
    }
    this.#isServing = false;
  }

  async #admitExactly(batch: readonly Waiter[]): Promise<void> {
    const replies = await inTransaction(this.#engine.database.api, async (client) => {
      const depth = await this.#options.depth.readLocked(client);
      const made: (() => void)[] = [];
      // Negative when unlimited submissions filled the queue beyond its size.
      let room = this.#options.queueSize - depth;
      for (const waiter of batch) {
        made.push(await this.#attempt(client, waiter, room));
        room -= Math.max(0, Math.min(room, waiter.jobs));
      }
      this.#note(this.#options.queueSize - room);
      return made;
    });
    for (const reply of replies) reply();
  }

  /**
   * A savepoint isolates failing work from the rest of the batch. Callers get their results after the commit. Work that meets a lock
   * of another transaction is tried again later, so that the line does not wait for that transaction.
   */
  async #attempt(client: pg.ClientBase, waiter: Waiter, room: number): Promise<() => void> {
    const { work, least, resolve, reject } = waiter;
    if (room < least) return () => reject(this.refusal(room));
    await client.query(`SAVEPOINT admission; SET LOCAL lock_timeout = ${LOCK_WAIT_MS}`);
    try {
      const value = await work(client, room);
      await client.query('RELEASE SAVEPOINT admission');
      return () => resolve(value);
    } catch (error) {
      await client.query('ROLLBACK TO SAVEPOINT admission');
      if (!isContended(error)) return () => reject(this.#explained(error));
      if (performance.now() < waiter.untilMs) return () => this.#standAgain(waiter);
      return () => reject(rowHeld(error));
    }
  }

  #standAgain(waiter: Waiter): void {
    setTimeout(() => {
      this.#line.push(waiter);
      void this.#serve();
    }, RETRY_MS);
  }

  #explained(error: unknown): unknown {
    // More submissions wait to be written than the submitter accepts, which is a full queue as well.
    const isOverflow = isAppError(error, 'QUOTA_EXCEEDED') && !this.isFull(error);
    return translated(isOverflow && this.#options.isOverflowFull ? this.#full(this.#depth, error) : error);
  }
}
