import type pg from 'pg';
import { type AppError, isAppError } from '../../core/errors.ts';
import type { Amounts, SharedUse } from '../../core/fair-share.ts';
import type { Engine } from '../../engine/engine.ts';
import { rowHeld } from '../../engine/submit/job-writer.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { isContended, isLockedOut, type Queryable, translated } from '../../ledger/driver/statement.ts';
import { CountedJobs } from './counted-jobs.ts';
import type { QueueDepths } from './queue-depths.ts';
import type { StoredLimit } from './stored-limit.ts';

/** Too little room for the whole work. With a client, the work runs in its transaction. */
export type Place = { readonly client?: pg.ClientBase; readonly room: number; readonly refusal: AppError };

/** If it gets a place, the work may add `room` jobs and refuses the others. */
export type Work<T> = (place?: Place) => Promise<T>;

export type Load = {
  readonly orgId: string;
  /** The largest number of jobs that the work adds, and the least room with which it is tried. */
  readonly jobs: number;
  readonly least: number;
  /** What the jobs take in the database. */
  readonly bytes: number;
};

/** The jobs of an org, and how many it may have. */
export type OrgShare = { readonly current: number; readonly maximum: number };

export type AdmissionOptions = {
  queueSize: number;
  /** The part of the queue that one org may fill while it is alone. */
  orgShare: number;
  /** Counts waiting jobs, up to `queueSize`. After `readLocked` no other process admits jobs until the transaction ends. */
  depth: { read(db: Queryable): Promise<Amounts>; readLocked(db: Queryable): Promise<Amounts> };
  /** The limit of what jobs take in the database. */
  stored?: StoredLimit;
  /** The caps of single queues. */
  depths?: QueueDepths;
  /** Turns the refusal of a single queue into the error of the door. Default: unchanged. */
  refusedByQueue?(refusal: AppError): AppError;
  full(current: number, cause?: unknown): AppError;
  overShare(share: OrgShare): AppError;
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
 * Admits jobs to the queue while there is room, and while their org has not used its share of it. Far from the limit a recent count is
 * enough, and no caller waits for a new one. Near the limit all processes count under one lock, so that the limit is exact. Shares are
 * not exact: a process learns of the jobs of others when it counts.
 */
export class Admission {
  readonly #engine: Pick<Engine, 'database'>;
  readonly #options: AdmissionOptions;
  readonly #margin: number;
  readonly #counted: CountedJobs;
  readonly #waiting: SharedUse;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #trustedMs = READING_MS;
  #freshMs = READING_MS;
  #reading: Promise<void> | null = null;
  readonly #refusals = new WeakSet<AppError>();
  #line: Waiter[] = [];
  #isServing = false;

  constructor(engine: Pick<Engine, 'database'>, options: AdmissionOptions) {
    this.#engine = engine;
    this.#options = options;
    this.#margin = Math.max(SMALLEST_MARGIN, Math.floor(options.queueSize / 10));
    this.#counted = new CountedJobs({ limit: options.queueSize, part: options.orgShare });
    this.#waiting = this.#counted.use;
  }

  /** Runs the work, or refuses it without running it. */
  admit<T>(work: Work<T>, load: Load): Promise<T> {
    const stored = this.#options.stored?.take(load) ?? null;
    if (stored === null) return this.#admitStored(work, load);
    return Promise.resolve(stored).then((over) => (over === null ? this.#admitStored(work, load) : this.#refuse(work, load, 0, over)));
  }

  /** Counts jobs that a handler spawns, and throws if its org has no room for them. They are not counted under the lock. */
  async reserve(load: Load): Promise<void> {
    const over = await this.#options.stored?.take(load);
    if (over != null) throw over;
    await this.#keepReading();
    if (this.#isOverShare(load)) await this.#readAgain();
    if (this.#isOverShare(load)) throw this.#overShare(load.orgId);
    this.#counted.add(load.orgId, load.jobs);
  }

  #admitStored<T>(work: Work<T>, load: Load): Promise<T> {
    if (load.jobs === 0) return this.#pass(work);
    if (this.#options.queueSize <= this.#margin) return this.#standInLine(work, load);
    const first = this.#keepReading();
    return first === undefined ? this.#admitByReading(work, load) : first.then(() => this.#admitByReading(work, load));
  }

  #admitByReading<T>(work: Work<T>, load: Load): Promise<T> {
    if (!this.#isOverShare(load)) return this.#admitWithin(work, load);
    // Some of the jobs that were added to an old count have started since.
    return this.#readAgain().then(() => {
      if (!this.#isOverShare(load)) return this.#admitWithin(work, load);
      return this.#refuse(work, load, Math.max(0, this.#waiting.room(load.orgId)), this.#overShare(load.orgId));
    });
  }

  #admitWithin<T>(work: Work<T>, load: Load): Promise<T> {
    if (this.#waiting.all + load.jobs + this.#margin > this.#options.queueSize) return this.#standInLine(work, load);
    return this.#counted.addUntil(load.orgId, load.jobs, () => this.#pass(work));
  }

  /** Work that can be divided adds as many jobs as fit. */
  #refuse<T>(work: Work<T>, { orgId, jobs, least }: Load, room: number, refusal: AppError): Promise<T> {
    this.#refusals.add(refusal);
    if (least === jobs) return Promise.reject(refusal);
    return this.#counted.addUntil(orgId, Math.min(room, jobs), () => this.#pass(() => work({ room, refusal })));
  }

  #pass<T>(work: Work<T>): Promise<T> {
    return work().catch((error) => {
      throw this.#explained(error);
    });
  }

  get depths(): QueueDepths | undefined {
    return this.#options.depths;
  }

  /** The error of the door for a job that its queue refuses. */
  refusedByQueue(refusal: AppError): AppError {
    const error = this.#options.refusedByQueue?.(refusal) ?? refusal;
    this.#refusals.add(error);
    return error;
  }

  /** Whether the work was refused because the queue is full, or because its org has used its share. */
  isFull(error: unknown): error is AppError {
    return this.#refusals.has(error as AppError);
  }

  #full(current: number, cause?: unknown): AppError {
    const refusal = this.#options.full(current, cause);
    this.#refusals.add(refusal);
    return refusal;
  }

  #isOverShare({ orgId, jobs }: Load): boolean {
    return this.#waiting.room(orgId) < jobs;
  }

  #overShare(orgId: string): AppError {
    const refusal = this.#options.overShare({ current: this.#waiting.own(orgId), maximum: this.#waiting.share(orgId) });
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

  /** Counts again, unless the last count is fresh. So an org that keeps asking beyond its share does not cost a count for each request. */
  #readAgain(): Promise<void> {
    return performance.now() - this.#readAtMs < this.#freshMs ? Promise.resolve() : this.#read();
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
    await this.#counted.count(() => this.#options.depth.read(this.#engine.database.api));
    this.#readAtMs = performance.now();
    const room = this.#options.queueSize - this.#waiting.all - this.#margin;
    const tookMs = this.#readAtMs - askedAtMs;
    this.#freshMs = Math.max(READING_MS, tookMs * PAUSE_PER_READING);
    this.#trustedMs = Math.max(this.#freshMs, (READING_MS * room) / this.#margin);
  }

  #standInLine<T>(work: Work<T>, load: Load): Promise<T> {
    if (this.#line.length >= MAX_WAITING) return Promise.reject(this.#full(this.#waiting.all));
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
        const refusal = isLockedOut(error) ? this.#full(this.#waiting.all, error) : error;
        for (const { reject } of batch) reject(refusal);
      });
    }
    this.#isServing = false;
  }

  async #admitExactly(batch: readonly Waiter[]): Promise<void> {
    const replies = await inTransaction(this.#engine.database.api, async (client) => {
      this.#waiting.replace(await this.#options.depth.readLocked(client));
      this.#readAtMs = performance.now();
      const made: (() => void)[] = [];
      for (const waiter of batch) {
        const place = this.#placeFor(waiter, client);
        made.push(await this.#attempt(place, waiter));
        this.#waiting.add(waiter.orgId, Math.max(0, Math.min(place.room, waiter.jobs)));
      }
      return made;
    });
    for (const reply of replies) reply();
  }

  /** The room is negative when unlimited submissions filled the queue beyond its size. */
  #placeFor({ orgId }: Waiter, client: pg.ClientBase): Place & { client: pg.ClientBase } {
    const free = this.#options.queueSize - this.#waiting.all;
    const left = this.#waiting.room(orgId);
    if (left < free) return { client, room: left, refusal: this.#overShare(orgId) };
    return { client, room: free, refusal: this.#full(this.#waiting.all) };
  }

  /**
   * A savepoint isolates failing work from the rest of the batch. Callers get their results after the commit. Work that meets a lock
   * of another transaction is tried again later, so that the line does not wait for that transaction.
   */
  async #attempt(place: Place & { client: pg.ClientBase }, waiter: Waiter): Promise<() => void> {
    const { client } = place;
    const { work, least, resolve, reject } = waiter;
    if (place.room < least) return () => reject(place.refusal);
    await client.query(`SAVEPOINT admission; SET LOCAL lock_timeout = ${LOCK_WAIT_MS}`);
    try {
      const value = await work(place);
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
    return translated(isOverflow && this.#options.isOverflowFull ? this.#full(this.#waiting.all, error) : error);
  }
}
