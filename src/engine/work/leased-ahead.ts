import { mayStartLate } from '../../ledger/attempts/claim-jobs.ts';
import { Lookahead } from './lookahead.ts';
import type { Starter, Unstarted } from './starter.ts';
import { WaitingLine } from './waiting-line.ts';

/** A job that has waited for a slot for this long is given back: other workers may have one. */
const MAX_IN_LINE_MS = 100;

export type LeasedAheadOptions = {
  /** Zero: nothing is leased ahead. */
  slots: number;
  starter: Starter;
  /** Calls the handler of a job whose start is not written. */
  runLate(unstarted: Unstarted): void;
  /** A job in line is not this worker's any more. */
  onGone(unstarted: Unstarted): void;
};

/** The jobs that a worker leased beyond its free slots. They are not started, and get a slot in claim order. */
export class LeasedAhead {
  readonly #options: LeasedAheadOptions;
  readonly #lookahead: Lookahead;
  readonly #line = new WaitingLine();
  #isStopped = false;

  constructor(options: LeasedAheadOptions) {
    this.#options = options;
    this.#lookahead = new Lookahead(options.slots);
  }

  /** How many jobs are to be in line; zero while handlers are not short or no more jobs wait. */
  get wanted(): number {
    return this.#lookahead.jobs;
  }

  get length(): number {
    return this.#line.length;
  }

  all(): Unstarted[] {
    return this.#line.all();
  }

  push(unstarted: readonly Unstarted[]): void {
    this.#line.push(unstarted);
    if (this.#isStopped) this.#giveBack();
  }

  /** A claim returned. */
  onClaimed(claim: { hasMore: boolean; nowMs: number }): void {
    this.#lookahead.observe(claim);
  }

  /** A handler returned. */
  onEnded(ranMs: number): void {
    this.#lookahead.ended(ranMs);
  }

  /** Gives free slots to the first in line. */
  fill(free: number): void {
    // After a handler blocked the event loop, the leases of these jobs may have been given back.
    this.sweep(performance.now());
    const toStart: Unstarted[] = [];
    for (let left = free; left > 0; left--) {
      const next = this.#line.take();
      if (next === undefined) break;
      // A job that fails with its worker must not seem to have run, so it starts first.
      if (mayStartLate(next.job) && next.policy.onOrphan !== 'fail') this.#options.runLate(next);
      else toStart.push(next);
    }
    if (toStart.length > 0) this.#options.starter.add(toStart);
  }

  sweep(nowMs: number): void {
    const { oldestMs } = this.#line;
    if (oldestMs === undefined || nowMs - oldestMs < MAX_IN_LINE_MS) return;
    this.#lookahead.overshot(nowMs);
    this.#giveBack();
  }

  /** Somebody asks to cancel the job: it is given back, and ends with that. */
  cancel(leaseSeq: number): void {
    const unstarted = this.#line.remove(leaseSeq);
    if (unstarted !== undefined) this.#options.starter.add([unstarted], 'return');
  }

  lose(leaseSeq: number): void {
    const unstarted = this.#line.remove(leaseSeq);
    if (unstarted !== undefined) this.#options.onGone(unstarted);
  }

  /** Gives back what is in line, and whatever comes. */
  stop(): void {
    this.#isStopped = true;
    this.#giveBack();
  }

  /** Leaves what is in line to a rescuer. */
  abandon(): void {
    this.#isStopped = true;
    this.#line.clear();
  }

  #giveBack(): void {
    const unstarted = this.#line.clear();
    if (unstarted.length > 0) this.#options.starter.add(unstarted, 'return');
  }
}
