import type { Database } from '../../ledger/driver/database.ts';
import { countWaiting } from '../../ledger/queues/queue-depth.ts';
import { CountedJobs } from './counted-jobs.ts';

/** Jobs for a queue of which at most `cap` may wait. */
export type DepthAsk = { readonly queue: string; readonly cap: number; readonly orgId: string; readonly jobs: number };

/** How many more jobs a queue has room for, and how many wait there. */
export type DepthRoom = { readonly room: number; readonly current: number; readonly cap: number };

/** A count is repeated after this many times its own duration, so that counting costs the database at most a twentieth of a core. */
const PAUSE_PER_READING = 20;
/** A count that leaves no room is repeated sooner, because jobs that were added to it may have started. */
const PAUSE_WHEN_FULL = 4;

/** The jobs that wait in one queue with a cap. */
class QueueDepth {
  readonly counted: CountedJobs;
  readonly cap: number;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #tookMs = 0;
  #reading: Promise<void> | null = null;

  constructor(cap: number) {
    this.cap = cap;
    this.counted = new CountedJobs({ limit: cap, part: 1 });
  }

  get room(): number {
    return Math.max(0, this.cap - this.counted.use.all);
  }

  /** Counts again, unless the last count is fresh enough to decide about so many jobs. */
  async refresh(jobs: number, count: () => Promise<number>): Promise<void> {
    if (this.#ageMs() >= this.#tookMs * PAUSE_PER_READING) await this.#read(count);
    else if (this.room < jobs && this.#ageMs() >= this.#tookMs * PAUSE_WHEN_FULL) await this.#read(count);
  }

  #ageMs(): number {
    return performance.now() - this.#readAtMs;
  }

  #read(count: () => Promise<number>): Promise<void> {
    const askedAtMs = performance.now();
    this.#reading ??= this.counted
      .count(async () => ({ all: await count(), holders: new Map() }))
      .finally(() => {
        this.#reading = null;
        this.#readAtMs = performance.now();
        this.#tookMs = this.#readAtMs - askedAtMs;
      });
    return this.#reading;
  }
}

/**
 * Bounds how many jobs wait in queues with a cap. A process adds the jobs that it admits to its last count, so the bound is exact while one
 * process accepts jobs. With several, a queue may exceed it by what the others admit between two counts.
 */
export class QueueDepths {
  readonly #database: Pick<Database, 'api'>;
  readonly #depths = new Map<string, QueueDepth>();

  constructor(database: Pick<Database, 'api'>) {
    this.#database = database;
  }

  /** Calls `write` with the room of each queue. Until it ends, as many jobs as fit count as waiting. */
  async through<T>(asks: readonly DepthAsk[], write: (rooms: ReadonlyMap<string, DepthRoom>) => Promise<T>): Promise<T> {
    for (const { queue, cap, jobs } of asks) {
      await this.#depthOf(queue, cap).refresh(jobs, () => countWaiting(this.#database.api, { queue, atMost: cap }));
    }
    // Nothing may come between reading the rooms and taking them.
    const rooms = new Map<string, DepthRoom>();
    let run = (): Promise<T> => write(rooms);
    for (const { queue, cap, orgId, jobs } of asks) {
      const { room, counted } = this.#depthOf(queue, cap);
      rooms.set(queue, { room, current: counted.use.all, cap });
      const next = run;
      run = () => counted.addUntil(orgId, Math.min(room, jobs), next);
    }
    return run();
  }

  #depthOf(queue: string, cap: number): QueueDepth {
    const known = this.#depths.get(queue);
    if (known?.cap === cap) return known;
    const depth = new QueueDepth(cap);
    this.#depths.set(queue, depth);
    return depth;
  }
}
