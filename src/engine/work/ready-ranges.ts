import { PRIORITIES } from '../../core/priority.ts';
import type { ReadyRange, StartedJob } from '../../ledger/attempts/claim-and-start.ts';
import { QueueTurns } from './queue-turns.ts';

/** How far behind the newest claimed key a range is still scanned, to find jobs that committed late. */
const LAG = 1_000;
/** Retried and deferred jobs keep their old key, below any floor. They wait at most this long to be found. */
const RESET_AFTER_MS = 500;
const SPARE_RUNS = 8;

export type Served = {
  queues: readonly string[];
  types: readonly string[];
  fair: ReadonlySet<string>;
  /** The queues with a cap or a rate. */
  governed?: ReadonlySet<string>;
};

/** The ranges of all queues, of those without a cap or a rate, or of one queue. */
export type Which = 'all' | 'ungoverned' | { readonly queue: string };

/**
 * The ranges of ready jobs that a worker claims from, each with a floor that moves up. Without the floor a claim walks the index entries of
 * every job claimed since the oldest snapshot began. With it, a claim of ten touched 204 buffers at first and 202 after 100 000 claims
 * behind a pinned snapshot (bench/claim-buffers.ts).
 */
export class ReadyRanges {
  #ranges: ReadyRange[] = [];
  /** Those of queues without a cap or a rate. The same array if there are no others. */
  #ungoverned: ReadyRange[] = [];
  #governed: ReadonlySet<string> = new Set();
  #byKey = new Map<string, ReadyRange>();
  readonly #turns = new QueueTurns(PRIORITIES.length);
  #resetAt = 0;
  /** Of the last claim that returned any jobs. */
  #jobsPerRun = 1;

  set({ queues, types, fair, governed = new Set() }: Served): void {
    this.#ranges = [];
    this.#governed = governed;
    this.#byKey = new Map();
    this.#turns.set(queues, fair);
    for (const queue of queues)
      for (const jobType of types)
        for (let priority = 0; priority < PRIORITIES.length; priority++) {
          const rank = this.#turns.rankOf(queue, priority);
          const range = { queue, jobType, priority, floor: 0, rank, inTurn: fair.has(queue) };
          this.#ranges.push(range);
          this.#byKey.set(`${queue}\n${jobType}\n${priority}`, range);
        }
    this.#ungoverned = queues.some((queue) => governed.has(queue))
      ? this.#ranges.filter(({ queue }) => !governed.has(queue))
      : this.#ranges;
  }

  /** Whether jobs of the queue and type are claimed here, and by every claim. */
  has(queue: string, jobType: string): boolean {
    return this.#byKey.has(`${queue}\n${jobType}\n0`) && !this.#governed.has(queue);
  }

  /** The ranges for the next claim. From time to time all floors go back to zero. */
  next(nowMs: number, which: Which = 'ungoverned'): readonly ReadyRange[] {
    if (nowMs - this.#resetAt >= RESET_AFTER_MS) this.reset(nowMs);
    if (typeof which === 'object') return this.#ranges.filter(({ queue }) => queue === which.queue);
    return which === 'all' ? this.#ranges : this.#ungoverned;
  }

  reset(nowMs: number): void {
    this.#resetAt = nowMs;
    for (const range of this.#ranges) range.floor = 0;
  }

  /** Whether several lines of queues take turns, one for each claim. Orgs within a line are another matter. */
  get takeTurns(): boolean {
    return this.#turns.lines > 1;
  }

  /** How many runs are likely to contain so many jobs, with some to spare. */
  runsFor(jobs: number): number {
    return Math.min(jobs, Math.ceil((jobs * 1.5) / this.#jobsPerRun) + SPARE_RUNS);
  }

  /** Raises the floors to the jobs of a claim in one line, and moves the turns on. Returns how many runs the jobs came from. */
  raise(started: readonly StartedJob[]): number {
    const firsts = firstsOfRuns(started);
    for (const job of firsts) {
      const range = this.#byKey.get(`${job.queue}\n${job.jobType}\n${job.priority}`);
      if (range !== undefined && job.orderKey - LAG > range.floor) range.floor = job.orderKey - LAG;
    }
    this.moveTurns(started);
    if (firsts.length > 0) this.#jobsPerRun = started.length / firsts.length;
    return firsts.length;
  }

  /** Moves the turns of the lines on. A claim in turns between orgs raises no floor, because older jobs of other orgs may wait. */
  moveTurns(started: readonly StartedJob[]): void {
    if (!this.takeTurns) return;
    let isOthersTurn = false;
    for (const job of started) if (this.#turns.served(job.queue, job.priority)) isOthersTurn = true;
    if (isOthersTurn) for (const range of this.#ranges) range.rank = this.#turns.rankOf(range.queue, range.priority);
  }
}

/** The first job of each run, if the jobs of a run follow each other. */
export const firstsOfRuns = (jobs: readonly StartedJob[]): readonly StartedJob[] =>
  jobs.filter((job, index) => job.orderKey !== jobs[index - 1]?.orderKey || job.jobType !== jobs[index - 1]?.jobType);
