import type pg from 'pg';
import { AppError, isAppError } from '../../core/errors.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import type { Engine } from '../../engine/engine.ts';
import { inTransaction } from '../../ledger/database.ts';
import { lockedQueueDepth, queueDepth } from '../../ledger/queue-depth.ts';
import { sqlStateOf, translated } from '../../ledger/statement.ts';

type Work = (client?: pg.ClientBase) => Promise<unknown>;
type Waiter = { work: Work; resolve(value: unknown): void; reject(error: unknown): void };

const QUEUE = 'q:default';
/** How long a reading of the queue is trusted, with what was admitted since, for each margin of room that it leaves. */
const READING_MS = 200;
/**
 * Nearer to the limit than this nothing is trusted but a count under the lock. Wide enough for what other processes admit
 * in the time for which one margin of room is trusted, and what is on its way to the ledger while it is counted.
 */
const SMALLEST_MARGIN = 2_000;
const MAX_BATCH = 100;
const MAX_WAITING = 2_000;
const RETRY_AFTER_MS = 1_000;
const LOCK_TIMEOUT = '55P03';
const QUEUE_FULL = 'RFA_EXEC_QUEUE_FULL';

const queueFull = (cause?: unknown): AppError =>
  new AppError('UNAVAILABLE', {
    message: 'The queue is full. Nothing was accepted.',
    problem: QUEUE_FULL,
    retryAfterMs: RETRY_AFTER_MS,
    cause,
  });

export const isQueueFull = (error: unknown): boolean =>
  isAppError(error, 'UNAVAILABLE') && error.problem === QUEUE_FULL;

/**
 * Lets jobs into the queue while there is room. Far from the limit a reading of the last moment is enough. Near it
 * admissions of all processes stand in line behind one lock and count, so that the limit is met exactly.
 */
export class Admission {
  readonly #engine: Pick<Engine, 'database'>;
  readonly #queueSize: number;
  readonly #margin: number;
  #depth = 0;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;
  #line: Waiter[] = [];
  #isServing = false;

  constructor(engine: Pick<Engine, 'database'>, { queueSize }: { queueSize: number }) {
    this.#engine = engine;
    this.#queueSize = queueSize;
    this.#margin = Math.max(SMALLEST_MARGIN, Math.floor(queueSize / 10));
  }

  /** Does the work, on a client inside a transaction where one is given, or refuses with QUEUE_FULL and does nothing. */
  admit<T>(work: (client?: pg.ClientBase) => Promise<T>): Promise<T> {
    if (this.#queueSize <= this.#margin) return this.#standInLine(work);
    const reading = this.#keepReading();
    return reading === undefined ? this.#admitByReading(work) : reading.then(() => this.#admitByReading(work));
  }

  #admitByReading<T>(work: (client?: pg.ClientBase) => Promise<T>): Promise<T> {
    if (this.#depth + this.#margin >= this.#queueSize) return this.#standInLine(work);
    this.#depth++;
    return this.pass(work);
  }

  /** For a job that enters the queue later, however full it is now: only its writing can be too much. */
  pass<T>(work: () => Promise<T>): Promise<T> {
    return work().catch((error) => {
      throw explained(error);
    });
  }

  /** Read again before the reading is too old, so that under load nobody waits for it. */
  #keepReading(): Promise<void> | undefined {
    const ageMs = performance.now() - this.#readAtMs;
    const trustedMs = this.#trustedMs();
    if (ageMs >= trustedMs) return this.#read();
    if (ageMs >= trustedMs / 2) this.#read().catch(() => {});
    return undefined;
  }

  /** A count reads every run in the queue, so one that leaves much room is not repeated soon. */
  #trustedMs(): number {
    const room = this.#queueSize - this.#depth - this.#margin;
    return READING_MS * Math.max(1, room / this.#margin);
  }

  /** One question at a time; whoever comes meanwhile waits for the same. */
  #read(): Promise<void> {
    this.#reading ??= this.#countUp().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #countUp(): Promise<void> {
    this.#note(await queueDepth(this.#engine.database.api, this.#waiting()));
  }

  #note(depth: number): void {
    this.#depth = depth;
    this.#readAtMs = performance.now();
  }

  #waiting() {
    return { queue: QUEUE, jobType: EXECUTION_TYPE, atMost: this.#queueSize };
  }

  #standInLine<T>(work: (client?: pg.ClientBase) => Promise<T>): Promise<T> {
    if (this.#line.length >= MAX_WAITING) return Promise.reject(queueFull());
    return new Promise((resolve, reject) => {
      this.#line.push({ work, resolve: resolve as Waiter['resolve'], reject });
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
        const refusal = sqlStateOf(error) === LOCK_TIMEOUT ? queueFull(error) : error;
        for (const { reject } of batch) reject(refusal);
      });
    }
    this.#isServing = false;
  }

  async #admitExactly(batch: readonly Waiter[]): Promise<void> {
    const { api } = this.#engine.database;
    const answers = await inTransaction(api, async (client) => {
      const depth = await lockedQueueDepth(client, this.#waiting());
      const room = Math.max(0, this.#queueSize - depth);
      const admitted: (() => void)[] = [];
      for (const waiter of batch.slice(0, room)) admitted.push(await attempt(client, waiter));
      this.#note(depth + admitted.length);
      return admitted;
    });
    for (const answer of answers) answer();
    for (const { reject } of batch.slice(answers.length)) reject(queueFull());
  }
}

/** Work that fails leaves no trace and does not spoil that of the others. The answer is given once all is committed. */
async function attempt(client: pg.ClientBase, { work, resolve, reject }: Waiter): Promise<() => void> {
  await client.query('SAVEPOINT admission');
  try {
    const value = await work(client);
    await client.query('RELEASE SAVEPOINT admission');
    return () => resolve(value);
  } catch (error) {
    await client.query('ROLLBACK TO SAVEPOINT admission');
    return () => reject(explained(error));
  }
}

/** More waits to be written than the submitter holds: that too is a queue that is full. */
const explained = (error: unknown): unknown =>
  isAppError(error, 'QUOTA_EXCEEDED') ? queueFull(error) : translated(error);
