import type pg from 'pg';
import type { AppError } from '../../core/errors.ts';
import type { Engine } from '../../engine/engine.ts';
import { rowHeld } from '../../engine/submit/job-writer.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { isContended, isLockedOut, type Queryable, translated } from '../../ledger/driver/statement.ts';

/** Given a client, it is inside a transaction in which so many jobs more fit. */
export type Work<T> = (client?: pg.ClientBase, room?: number) => Promise<T>;

/** How many jobs the work adds at most, and with how much room it is to be tried at all. */
export type Load = { readonly jobs: number; readonly least: number };

export type AdmissionOptions = {
  queueSize: number;
  /** How many jobs wait, counted no further than the size; locked, until the transaction ends nobody else admits any. */
  depth: { read(db: Queryable): Promise<number>; readLocked(db: Queryable): Promise<number> };
  full(current: number, cause?: unknown): AppError;
  /** What a failure of the work is to be called. */
  explain?(error: unknown): unknown;
};

type Waiter = Load & {
  work: Work<unknown>;
  /** Until when work is tried again that meets a lock of another transaction. */
  untilMs: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
};

const ONE: Load = Object.freeze({ jobs: 1, least: 1 });
/** How long a reading of the queue is trusted, with what was admitted since, for each margin of room that it leaves. */
const READING_MS = 200;
/** A count that takes long is asked for less often: it may cost the database a twentieth of a core. */
const PAUSE_PER_READING = 20;
/**
 * Nearer to the limit than this nothing is trusted but a count under the lock. Wide enough for what other processes admit
 * in the time for which one margin of room is trusted, and what is on its way to the ledger while it is counted.
 */
const SMALLEST_MARGIN = 2_000;
const MAX_BATCH = 100;
const MAX_WAITING = 2_000;
/** How long work may wait for a lock of another transaction, which may be a user's, while all others wait for it. */
const LOCK_WAIT_MS = 2;
/** When work that met such a lock is tried again, and for how long. */
const RETRY_MS = 100;
const PATIENCE_MS = 5_000;

/**
 * Lets jobs into the queue while there is room. Far from the limit a reading of the last moment is enough, and nobody waits
 * for the next. Near it admissions of all processes stand in line behind one lock and count, so that the limit is met exactly.
 */
export class Admission {
  readonly #engine: Pick<Engine, 'database'>;
  readonly #options: AdmissionOptions;
  readonly #margin: number;
  #depth = 0;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #trustedMs = READING_MS;
  #reading: Promise<void> | null = null;
  #line: Waiter[] = [];
  #isServing = false;

  constructor(engine: Pick<Engine, 'database'>, options: AdmissionOptions) {
    this.#engine = engine;
    this.#options = options;
    this.#margin = Math.max(SMALLEST_MARGIN, Math.floor(options.queueSize / 10));
  }

  /** Does the work, on a client inside a transaction where one is given, or refuses it and does nothing. */
  admit<T>(work: Work<T>, load: Load = ONE): Promise<T> {
    if (this.#options.queueSize <= this.#margin) return this.#standInLine(work, load);
    const first = this.#keepReading();
    return first === undefined ? this.#admitByReading(work, load) : first.then(() => this.#admitByReading(work, load));
  }

  #admitByReading<T>(work: Work<T>, load: Load): Promise<T> {
    if (this.#depth + load.jobs + this.#margin > this.#options.queueSize) return this.#standInLine(work, load);
    this.#depth += load.jobs;
    return this.pass(work);
  }

  /** For work that needs no room: only its writing can be too much. */
  pass<T>(work: () => Promise<T>): Promise<T> {
    return work().catch((error) => {
      throw this.#explained(error);
    });
  }

  /** What work is to say that does not fit in the room it was given. */
  refusal(room: number): AppError {
    return this.#options.full(this.#options.queueSize - room);
  }

  /**
   * Only the first is waited for. What this process admits is counted at once, so that an old reading misses what others do, and
   * the one that is asked for with the first request after a pause has that.
   */
  #keepReading(): Promise<void> | undefined {
    if (this.#readAtMs === Number.NEGATIVE_INFINITY) return this.#read();
    if (performance.now() - this.#readAtMs >= this.#trustedMs) this.#read().catch(() => {});
    return undefined;
  }

  /** One question at a time; whoever comes meanwhile waits for the same. */
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
    if (this.#line.length >= MAX_WAITING) return Promise.reject(this.#options.full(this.#depth));
    return new Promise((resolve, reject) => {
      const untilMs = performance.now() + PATIENCE_MS;
      this.#line.push({ ...load, work, untilMs, resolve: resolve as Waiter['resolve'], reject });
      void this.#serve();
    });
  }

  /** One transaction at a time in this process: those in line must not hold every connection. */
  async #serve(): Promise<void> {
    if (this.#isServing) return;
    this.#isServing = true;
    while (this.#line.length > 0) {
      const batch = this.#line.splice(0, MAX_BATCH);
      await this.#admitExactly(batch).catch((error) => {
        const refusal = isLockedOut(error) ? this.#options.full(this.#depth, error) : error;
        for (const { reject } of batch) reject(refusal);
      });
    }
    this.#isServing = false;
  }

  async #admitExactly(batch: readonly Waiter[]): Promise<void> {
    const answers = await inTransaction(this.#engine.database.api, async (client) => {
      const depth = await this.#options.depth.readLocked(client);
      const made: (() => void)[] = [];
      // Below nothing where others, who are not limited, added more than fits.
      let room = this.#options.queueSize - depth;
      for (const waiter of batch) {
        made.push(await this.#attempt(client, waiter, room));
        room -= Math.max(0, Math.min(room, waiter.jobs));
      }
      this.#note(this.#options.queueSize - room);
      return made;
    });
    for (const answer of answers) answer();
  }

  /**
   * Work that fails leaves no trace and does not spoil that of the others. The answer is given once all is committed. Work that
   * meets a lock of another transaction is tried again later: nobody in line waits for that transaction.
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
    return translated(this.#options.explain?.(error) ?? error);
  }
}
