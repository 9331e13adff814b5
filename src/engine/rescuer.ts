import { CANCELLED_FAILURE } from '../core/failure.ts';
import type { Database } from '../ledger/database.ts';
import { findOrphans, type Orphan } from '../ledger/find-orphans.ts';
import type { PolicyCache } from '../ledger/intern-policies.ts';
import { returnExpired } from '../ledger/return-jobs.ts';
import { settleJobs } from '../ledger/settle-jobs.ts';
import type { EventHub, JobFacts } from './events.ts';
import { Periodic } from './periodic.ts';
import { settlement } from './settler.ts';

const LIMIT = 500;
const POLL_MS = 1_000;

type Rescue = { orphan: Orphan } & ReturnType<typeof settlement>;

/** Between the look and the deed somebody asked to cancel what was to be tried again. */
const cancelledInstead = ({ orphan, row, decision }: Rescue): Rescue => ({
  orphan,
  row: { ...row, to: 'cancelled', delayMs: null },
  decision: { ...decision, failure: CANCELLED_FAILURE },
});

export type RescuerOptions = {
  database: Database;
  policies: PolicyCache;
  events: EventHub;
  onRescued(): void;
  onReleased(): void;
};

/**
 * Takes jobs from workers that fell silent. Every write checks again, with the worker's row locked, that it still is: a
 * heartbeat that comes in between keeps the job.
 */
export class Rescuer extends Periodic {
  readonly #options: RescuerOptions;

  constructor(options: RescuerOptions) {
    super({ name: 'rescuer', events: options.events });
    this.#options = options;
  }

  async round(): Promise<number> {
    const orphans = await findOrphans(this.#options.database.maintenance, LIMIT);
    const byWorker = Map.groupBy(orphans, (orphan) => orphan.workerId);
    for (const [workerId, jobs] of byWorker) await this.#rescue(workerId, jobs);
    if (orphans.length > 0) this.#options.onRescued();
    return orphans.length === LIMIT ? 0 : POLL_MS;
  }

  async #rescue(workerId: number, orphans: readonly Orphan[]): Promise<void> {
    const { database, onReleased } = this.#options;
    const unstarted = orphans.filter((orphan) => orphan.state === 'scheduled');
    if (unstarted.length > 0) await this.#putBack(workerId, unstarted);
    const started = orphans.filter((orphan) => orphan.state === 'running').toSorted((a, b) => a.seq - b.seq);
    if (started.length === 0) return;
    const settlements = await Promise.all(started.map((orphan) => this.#settlementOf(orphan)));
    const { landed, stopped, released } = await settleJobs(database.maintenance, {
      workerId,
      jobs: settlements.map(({ row }) => row),
      by: 'dead_worker',
      closedClaims: [],
    });
    for (const each of settlements) {
      if (landed.has(each.row.leaseSeq)) this.#tell(stopped.has(each.row.leaseSeq) ? cancelledInstead(each) : each);
    }
    if (released) onReleased();
  }

  async #putBack(workerId: number, unstarted: readonly Orphan[]): Promise<void> {
    const { database, events } = this.#options;
    const { landed } = await returnExpired(database.maintenance, { workerId, jobs: unstarted });
    for (const orphan of unstarted) if (landed.has(orphan.leaseSeq)) events.emit('unclaimed', factsOf(orphan));
  }

  #tell({ orphan, row, decision }: Rescue): void {
    if (decision.failure === undefined) return;
    const outcome = { state: row.to, failure: decision.failure, delayMs: row.delayMs };
    this.#options.events.emit('rescued', { ...factsOf(orphan), ...outcome });
  }

  async #settlementOf(orphan: Orphan): Promise<Rescue> {
    const policy = await this.#options.policies.policyOf(orphan.policyId);
    const outcome = orphan.cancelRequested ? ({ kind: 'cancelled' } as const) : ({ kind: 'worker_lost' } as const);
    return { orphan, ...settlement({ job: orphan, policy, outcome, elapsedMs: 0 }) };
  }
}

const factsOf = ({ id, jobType, attemptsStarted, orgId, tags, createdAtMs }: Orphan): JobFacts => ({
  ...{ jobId: id, type: jobType, attempt: attemptsStarted, orgId, tags, createdAtMs },
});
