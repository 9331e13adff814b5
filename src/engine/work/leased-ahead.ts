import { mayStartLate } from '../../ledger/attempts/claim-jobs.ts';
import type { Claims } from './claims.ts';
import { Lookahead } from './lookahead.ts';
import type { QueueReserve } from './queue-reserve.ts';
import type { LeasedJob, Starter } from './starter.ts';

/** A job that has waited this long for a slot is returned, because other workers may have a free one. */
const MAX_WAIT_MS = 100;

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

/** The jobs that a worker leased beyond its free slots. They have not started, and get slots in claim order. */
export class LeasedAhead {
  readonly #options: LeasedAheadOptions;
  readonly #lookahead: Lookahead;
  /** By lease, in claim order: a Map keeps the order of insertion. */
  readonly #jobs = new Map<number, { leased: LeasedJob; sinceMs: number }>();
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
      this.#jobs.set(leaseSeq, { leased, sinceMs });
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
    const oldestMs = this.#oldestMs();
    if (oldestMs === undefined || nowMs - oldestMs < MAX_WAIT_MS) return;
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

  #oldestMs(): number | undefined {
    for (const { sinceMs } of this.#jobs.values()) return sinceMs;
    return undefined;
  }

  /** The first job that may take one of the free slots, which may be reserved for other queues. */
  #shift(free: number): LeasedJob | undefined {
    const { queueReserve } = this.#options;
    const isForAll = free > queueReserve.keptFrom(null, this.#held);
    for (const [leaseSeq, { leased }] of this.#jobs) {
      if (isForAll || free > queueReserve.keptFrom(leased.job.queue, this.#held)) return this.#remove(leaseSeq);
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
    this.#waiting.clear();
    this.#waitingByQueue.clear();
  }

  #returnAll(): void {
    const jobs = this.all();
    this.#clear();
    if (jobs.length > 0) this.#options.starter.add(jobs, 'return');
  }
}
