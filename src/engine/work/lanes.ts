import { PRIORITIES } from '../../core/priority.ts';
import type { Lane, StartedJob } from '../../ledger/attempts/take-jobs.ts';
import { Turns } from './turns.ts';

/** How far behind the newest claimed key a lane keeps looking: jobs that committed late stand there. */
const LAG = 1_000;
/** Retried and deferred jobs keep their old place in the order, below any floor. They wait no longer than this for it. */
const RESET_AFTER_MS = 500;
const SPARE_RUNS = 8;

export type Served = { queues: readonly string[]; types: readonly string[]; fair: ReadonlySet<string> };

/**
 * The lanes a worker claims from, each with a moving lower bound. Without the bound a claim walks the entries of every job
 * claimed since the oldest snapshot began. With it a claim of ten touched 204 buffers at first and 202 after 100 000 claims
 * behind a pinned snapshot (bench/claim-buffers.ts).
 */
export class Lanes {
  #lanes: Lane[] = [];
  #byKey = new Map<string, Lane>();
  readonly #turns = new Turns(PRIORITIES.length);
  #resetAt = 0;
  /** Of the last claim that got any. */
  #jobsPerRun = 1;

  set({ queues, types, fair }: Served): void {
    this.#lanes = [];
    this.#byKey = new Map();
    this.#turns.set(queues, fair);
    for (const queue of queues)
      for (const jobType of types)
        for (let priority = 0; priority < PRIORITIES.length; priority++) {
          const lane = { queue, jobType, priority, floor: 0, rank: this.#turns.rankOf(queue, priority) };
          this.#lanes.push(lane);
          this.#byKey.set(`${queue}\n${jobType}\n${priority}`, lane);
        }
  }

  has(queue: string, jobType: string): boolean {
    return this.#byKey.has(`${queue}\n${jobType}\n0`);
  }

  /** The lanes as they stand. Once in a while, and after an empty claim, they start from the bottom again. */
  next(nowMs: number): readonly Lane[] {
    if (nowMs - this.#resetAt >= RESET_AFTER_MS) this.reset(nowMs);
    return this.#lanes;
  }

  reset(nowMs: number): void {
    this.#resetAt = nowMs;
    for (const lane of this.#lanes) lane.floor = 0;
  }

  /** Whether several lines take turns, one for each claim. */
  get takeTurns(): boolean {
    return this.#turns.lines > 1;
  }

  /** How many runs are likely to hold so many jobs, with some to spare. */
  runsFor(jobs: number): number {
    return Math.min(jobs, Math.ceil((jobs * 1.5) / this.#jobsPerRun) + SPARE_RUNS);
  }

  /** Lifts the bounds to what was claimed, and gives the next turn to others. Answers from how many runs that came. */
  raise(started: readonly StartedJob[]): number {
    let runs = 0;
    let isOthersTurn = false;
    let previous: StartedJob | undefined;
    for (const job of started) {
      if (job.orderKey === previous?.orderKey && job.jobType === previous.jobType) continue;
      previous = job;
      runs++;
      const lane = this.#byKey.get(`${job.queue}\n${job.jobType}\n${job.priority}`);
      if (lane !== undefined && job.orderKey - LAG > lane.floor) lane.floor = job.orderKey - LAG;
      if (this.#turns.served(job.queue, job.priority)) isOthersTurn = true;
    }
    if (isOthersTurn) for (const lane of this.#lanes) lane.rank = this.#turns.rankOf(lane.queue, lane.priority);
    if (runs > 0) this.#jobsPerRun = started.length / runs;
    return runs;
  }
}
