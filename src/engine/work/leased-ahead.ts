import { mayStartLate } from '../../ledger/attempts/claim-jobs.ts';
import type { Claims } from './claims.ts';
import { Lookahead } from './lookahead.ts';
import type { QueueReserve } from './queue-reserve.ts';
import type { LeasedJob, Starter } from './starter.ts';

/** A job that has waited this long for a slot is returned, because other workers may have a free one. */
const MAX_WAIT_MS = 100;
/** This many jobs that have left may stay at the front of the line. */
const MAX_LEFT = 1_000;

export type LeasedAheadOptions = {
  /** Zero: the worker leases no jobs ahead. */
  slots: number;
  /** The last free slots, so many of them, are only for newcomers: orgs of which no job has a slot. */
  reservedSlots(): number;
  /** Counts the jobs of the worker, those that wait here included. */
  claims: Pick<Claims, 'owned' | 'slotsOf'>;
  queueReserve: QueueReserve;
  starter: Starter;
  /** Calls the handler of a job before its start is written. */
  runLate(leased: LeasedJob): void;
  /** This worker has lost the lease of the job. */
  onGone(leased: LeasedJob): void;
};

type Waiting = { readonly leased: LeasedJob; readonly sinceMs: number };

/** The jobs that a worker leased beyond its free slots. They have not started, and get slots in claim order. */
export class LeasedAhead {
  readonly #options: LeasedAheadOptions;
  readonly #lookahead: Lookahead;
  /** By lease. */
  readonly #jobs = new Map<number, Waiting>();
  /** In claim order, from `#first` on. Jobs that left by another way are still listed until their turn comes. */
  #line: Waiting[] = [];
  #first = 0;
  /** How many jobs of each org wait here. */
  readonly #waiting = new Map<string, number>();
  /** How many jobs of each queue wait here. */
  readonly #waitingByQueue = new Map<string, number>();
  #isStopped = false;

  constructor(options: LeasedAheadOptions) {
    this.#options = options;
    this.#lookahead = new Lookahead(options.slots);
  }

  /** How many jobs should wait here; zero unless handlers are short and more jobs are ready. */
  get wanted(): number {
    return this.#lookahead.jobs;
  }

  get length(): number {
    return this.#jobs.size;
  }

  all(): LeasedJob[] {
    return Array.from(this.#jobs.values(), ({ leased }) => leased);
  }

  push(jobs: readonly LeasedJob[]): void {
    const sinceMs = performance.now();
    for (const leased of jobs) {
      const { leaseSeq, orgId, queue } = leased.job;
      const waiting = { leased, sinceMs };
      this.#jobs.set(leaseSeq, waiting);
      this.#line.push(waiting);
      this.#waiting.set(orgId, (this.#waiting.get(orgId) ?? 0) + 1);
      this.#waitingByQueue.set(queue, (this.#waitingByQueue.get(queue) ?? 0) + 1);
    }
    if (this.#isStopped) this.#returnAll();
  }

  /** A claim returned. */
  onClaimed(claim: { hasMore: boolean; nowMs: number }): void {
    this.#lookahead.observe(claim);
  }

  /** A handler returned. */
  onEnded(ranMs: number): void {
    this.#lookahead.ended(ranMs);
  }

  /** Gives free slots to the jobs that have waited longest. */
  fill(free: number): void {
    // If a handler blocked the event loop, the heartbeat thread may have returned these jobs.
    this.returnOverdue(performance.now());
    const toStart: LeasedJob[] = [];
    const reserved = this.#options.reservedSlots();
    for (let left = free; left > 0; left--) {
      const next = left > reserved ? this.#shift(left - reserved) : this.#shiftNewcomer();
      if (next === undefined) break;
      // A job that fails with its worker must not appear to have run, so its start is written first.
      if (mayStartLate(next.job) && next.policy.onOrphan !== 'fail') this.#options.runLate(next);
      else toStart.push(next);
    }
    if (toStart.length > 0) this.#options.starter.add(toStart);
  }

  /** Returns all jobs if the first one has waited too long. */
  returnOverdue(nowMs: number): void {
    const oldest = this.#head();
    if (oldest === undefined || nowMs - oldest.sinceMs < MAX_WAIT_MS) return;
    this.#lookahead.overshot(nowMs);
    this.#returnAll();
  }

  /** Returns the job, and the return cancels it. */
  cancel(leaseSeq: number): void {
    const leased = this.#remove(leaseSeq);
    if (leased !== undefined) this.#options.starter.add([leased], 'return');
  }

  lose(leaseSeq: number): void {
    const leased = this.#remove(leaseSeq);
    if (leased !== undefined) this.#options.onGone(leased);
  }

  /** Returns the waiting jobs, and later ones as they arrive. */
  stop(): void {
    this.#isStopped = true;
    this.#returnAll();
  }

  /** Leaves the waiting jobs to a rescuer. */
  abandon(): void {
    this.#isStopped = true;
    this.#clear();
  }

  /**
   * The job that has waited longest. The line is a list, because the first entry of a Map is found by stepping over all entries that were
   * deleted before it, and each look creates an iterator, which was 8 % of what a worker allocated.
   */
  #head(): Waiting | undefined {
    let head = this.#line[this.#first];
    while (head !== undefined && !this.#isWaiting(head)) head = this.#line[++this.#first];
    if (head === undefined || this.#first >= MAX_LEFT) {
      this.#line.splice(0, this.#first);
      this.#first = 0;
    }
    return head;
  }

  readonly #isWaiting = (waiting: Waiting): boolean => this.#jobs.get(waiting.leased.job.leaseSeq) === waiting;

  /** The first job that may take one of the free slots, which may be reserved for other queues. */
  #shift(free: number): LeasedJob | undefined {
    const { queueReserve } = this.#options;
    const head = this.#head();
    if (head === undefined) return undefined;
    if (free > queueReserve.keptFrom(null, this.#held)) return this.#remove(head.leased.job.leaseSeq);
    for (const { leased } of this.#jobs.values()) {
      if (free > queueReserve.keptFrom(leased.job.queue, this.#held)) return this.#remove(leased.job.leaseSeq);
    }
    return undefined;
  }

  /** How many jobs of the queue have a slot. */
  readonly #held = (queue: string): number => this.#options.claims.slotsOf(queue) - (this.#waitingByQueue.get(queue) ?? 0);

  /** An org has a slot if it has more jobs than wait here. */
  #shiftNewcomer(): LeasedJob | undefined {
    for (const [orgId, waiting] of this.#waiting) {
      if ((this.#options.claims.owned.get(orgId) ?? 0) > waiting) continue;
      for (const [leaseSeq, { leased }] of this.#jobs) if (leased.job.orgId === orgId) return this.#remove(leaseSeq);
    }
    return undefined;
  }

  #remove(leaseSeq: number): LeasedJob | undefined {
    const removed = this.#jobs.get(leaseSeq)?.leased;
    if (removed === undefined) return undefined;
    this.#jobs.delete(leaseSeq);
    const { orgId, queue } = removed.job;
    this.#waitingByQueue.set(queue, (this.#waitingByQueue.get(queue) ?? 1) - 1);
    const left = (this.#waiting.get(orgId) ?? 1) - 1;
    if (left > 0) this.#waiting.set(orgId, left);
    else this.#waiting.delete(orgId);
    return removed;
  }

  #clear(): void {
    this.#jobs.clear();
    this.#line = [];
    this.#first = 0;
    this.#waiting.clear();
    this.#waitingByQueue.clear();
  }

  #returnAll(): void {
    const jobs = this.all();
    this.#clear();
    if (jobs.length > 0) this.#options.starter.add(jobs, 'return');
  }
}
