import { ownedJobs } from '../../ledger/attempts/owned-jobs.ts';
import { returnJobs } from '../../ledger/attempts/return-jobs.ts';
import { settleJobs } from '../../ledger/attempts/settle-jobs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import { settlement } from './settlement.ts';

type ClaimedLease = { leaseSeq: number; orgId: string; queue?: string; limitId?: number | null };

type ClaimsOptions = { onLimitFree?(limitId: number): void; onEnded?(queue: string): void };

const NO_QUEUE = '';

/**
 * The claims of this worker, and how many of their jobs have not ended, by claim and by org. A rescuer finds the jobs of a dead worker through the rows of its
 * claims, so a claim is closed only when the end of its last job is certain.
 */
export class Claims {
  #lastNo = 0;
  readonly #open = new Map<number, number>();
  /** The org and the queue of each lease. */
  readonly #leases = new Map<number, { orgId: string; queue: string; hasSlot: boolean }>();
  /** The limit of each lease whose job has one. */
  readonly #limits = new Map<number, number>();
  readonly #onLimitFree: (limitId: number) => void;
  readonly #onEnded: (queue: string) => void;
  readonly #owned = new Map<string, number>();
  readonly #slotsByQueue = new Map<string, number>();
  #orgsLeft = 0;
  readonly #inFlight = new Set<number>();
  #closed: number[] = [];

  /** `onLimitFree`: a job with a limit has ended, so another one may start. `onEnded`: a job of the queue has ended. */
  constructor({ onLimitFree = () => {}, onEnded = () => {} }: ClaimsOptions = {}) {
    this.#onLimitFree = onLimitFree;
    this.#onEnded = onEnded;
  }

  /** Numbers a claim that is about to be sent. */
  next(): number {
    this.#inFlight.add(++this.#lastNo);
    return this.#lastNo;
  }

  /** The statement of a claim returned or failed. */
  answered(claimNo: number): void {
    this.#inFlight.delete(claimNo);
  }

  isInFlight(claimNo: number): boolean {
    return this.#inFlight.has(claimNo);
  }

  open(claimNo: number, jobs: readonly ClaimedLease[]): void {
    this.#open.set(claimNo, jobs.length);
    for (const { leaseSeq, orgId, limitId, queue = NO_QUEUE } of jobs) {
      this.#leases.set(leaseSeq, { orgId, queue, hasSlot: true });
      if (limitId != null) this.#limits.set(leaseSeq, limitId);
      this.#owned.set(orgId, (this.#owned.get(orgId) ?? 0) + 1);
      this.#slotsByQueue.set(queue, this.slotsOf(queue) + 1);
    }
  }

  /** How many jobs of each org have not ended. Other orgs are absent. */
  get owned(): ReadonlyMap<string, number> {
    return this.#owned;
  }

  /** How many jobs of the queue have a slot, or wait for one here. */
  slotsOf(queue: string): number {
    return this.#slotsByQueue.get(queue) ?? 0;
  }

  /** The job has no slot any more. Its outcome is not written yet. */
  vacate(leaseSeq: number): void {
    const lease = this.#leases.get(leaseSeq);
    if (lease === undefined || !lease.hasSlot) return;
    lease.hasSlot = false;
    this.#slotsByQueue.set(lease.queue, this.slotsOf(lease.queue) - 1);
  }

  /** How often the last job of an org ended. */
  get orgsLeft(): number {
    return this.#orgsLeft;
  }

  /** Whether this worker knows the lease and its job has not ended. */
  holds(leaseSeq: number): boolean {
    return this.#leases.has(leaseSeq);
  }

  /** The end of one job of the claim is certain. */
  done(claimNo: number, leaseSeq: number): void {
    const lease = this.#leases.get(leaseSeq);
    if (lease === undefined) return;
    this.vacate(leaseSeq);
    this.#leases.delete(leaseSeq);
    this.#disown(lease.orgId);
    if (this.#limits.size > 0) this.#freeLimit(leaseSeq);
    this.#onEnded(lease.queue);
    const left = (this.#open.get(claimNo) ?? 1) - 1;
    if (left > 0) {
      this.#open.set(claimNo, left);
      return;
    }
    this.#open.delete(claimNo);
    this.#closed.push(claimNo);
  }

  #freeLimit(leaseSeq: number): void {
    const limitId = this.#limits.get(leaseSeq);
    if (limitId === undefined) return;
    this.#limits.delete(leaseSeq);
    this.#onLimitFree(limitId);
  }

  #disown(orgId: string): void {
    const left = (this.#owned.get(orgId) ?? 1) - 1;
    if (left > 0) {
      this.#owned.set(orgId, left);
      return;
    }
    this.#owned.delete(orgId);
    this.#orgsLeft++;
  }

  takeClosed(): number[] {
    const closed = this.#closed;
    this.#closed = [];
    return closed;
  }

  /** The statement that was to close them may have failed. Closing a claim twice does no harm. */
  reopen(claimNos: readonly number[]): void {
    this.#closed.push(...claimNos);
  }
}

export type ReturnParams = { database: Database; policies: PolicyCache; workerId: number; claims: Claims };

/**
 * Returns jobs that the worker has leased according to the ledger and does not know, because the response to their claim was lost. Jobs of
 * a claim in flight stay: the response is still to come, and the worker will run them.
 */
export async function returnUnknownJobs({ database, policies, workerId, claims }: ReturnParams): Promise<void> {
  const owned = await ownedJobs(database.workers, workerId);
  // Their claims stay open, because a claim may also contain jobs that the worker knows.
  const closedClaims: readonly number[] = [];
  const unknown = owned.filter((job) => !claims.holds(job.leaseSeq) && !claims.isInFlight(job.claimNo));
  const unstarted = unknown.filter((job) => job.state === 'scheduled');
  if (unstarted.length > 0) await returnJobs(database.workers, { workerId, jobs: unstarted, closedClaims });
  const started = unknown.filter((job) => job.state === 'running');
  if (started.length === 0) return;
  const rows = await Promise.all(
    started.map(async (job) => {
      const policy = await policies.policyOf(job.policyId);
      return settlement({ job, policy, outcome: { kind: 'released' }, elapsedMs: 0 }).row;
    }),
  );
  await settleJobs(database.workers, { workerId, jobs: rows, by: 'lease', closedClaims });
}
