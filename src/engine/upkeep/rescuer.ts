import { PAUSES } from '../../core/backoff.ts';
import { CANCELLED_FAILURE } from '../../core/failure.ts';
import type { Policy } from '../../core/policy.ts';
import { findOrphans, type Orphan, type OrphanCursor } from '../../ledger/attempts/find-orphans.ts';
import { returnExpired } from '../../ledger/attempts/return-jobs.ts';
import { presumeStarted, settleOrphans } from '../../ledger/attempts/settle-orphans.ts';
import { declareDead, watchWorkers } from '../../ledger/attempts/watch-workers.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import { type Belonging, nameOrphans } from '../../ledger/upkeep/name-orphans.ts';
import { type EventHub, factsOf } from '../events.ts';
import { LoopService } from '../loop.ts';
import { settlement } from '../work/settlement.ts';
import { FailureDelays } from './failure-delays.ts';
import { WorkerWatch } from './worker-watch.ts';

const LIMIT = 500;
const POLL_MS = 1_000;

type NamedOrphan = Orphan & Belonging;
type Rescue = { orphan: NamedOrphan } & ReturnType<typeof settlement>;
type Rescued = { rescues: readonly Rescue[]; released: boolean };

const NONE: Rescued = { rescues: [], released: false };

/** The job was to be retried, but a request to cancel it came in before the write. */
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
 * Takes over the jobs of workers that died or fell silent. Every write checks again, with the worker's row locked, so a
 * heartbeat that comes in between keeps the job. The rescuer waits for no lock. It takes jobs that a transaction holds
 * in a later round.
 */
export class Rescuer extends LoopService {
  readonly #options: RescuerOptions;
  readonly #watch = new WorkerWatch();
  /** By worker. The first delay is longer than a round. */
  readonly #delays = new FailureDelays<number>({ ...PAUSES.rescueFailed, firstMs: 2 * POLL_MS });

  constructor(options: RescuerOptions) {
    super({ name: 'rescuer', events: options.events });
    this.#options = options;
  }

  async round(): Promise<number> {
    await this.#look();
    for (const worker of this.#watch.dead()) {
      await this.#alone(worker.id, () => declareDead(this.#options.database.workers, worker));
    }
    let cursor: OrphanCursor | undefined;
    do cursor = await this.#rescuePage(cursor);
    while (cursor !== undefined);
    return POLL_MS;
  }

  async #look(): Promise<void> {
    try {
      this.#watch.observe(await watchWorkers(this.#options.database.workers), performance.now());
    } catch (error) {
      this.#watch.restart();
      throw error;
    }
  }

  /** Returns where the next page begins. Pages go past orphans that cannot be taken yet. */
  async #rescuePage(after: OrphanCursor | undefined): Promise<OrphanCursor | undefined> {
    const orphans = await findOrphans(this.#options.database.workers, LIMIT, after);
    const taken = orphans.filter(({ workerId, worker, leaseMs }) => this.#watch.confirms(workerId, worker, leaseMs));
    for (const [workerId, jobs] of Map.groupBy(taken, (orphan) => orphan.workerId)) {
      await this.#alone(workerId, () => this.#rescue(workerId, jobs));
    }
    if (taken.length > 0) this.#options.onRescued();
    return orphans.length === LIMIT ? orphans.at(-1) : undefined;
  }

  /** A failure for one worker is retried later and does not affect the others. */
  async #alone(workerId: number, work: () => Promise<unknown>): Promise<void> {
    if (this.#delays.isWaiting(workerId)) return;
    try {
      await work();
      this.#delays.succeeded(workerId);
    } catch (error) {
      this.#delays.failed(workerId);
      this.#options.events.emit('error', { error, where: 'rescuer' });
    }
  }

  async #rescue(workerId: number, found: readonly Orphan[]): Promise<void> {
    const orphans = await nameOrphans(this.#options.database.workers, found);
    const policies = await Promise.all(orphans.map(({ policyId }) => this.#options.policies.policyOf(policyId)));
    const fates = Object.groupBy(orphans, (orphan, index) => fateOf(orphan, policies[index]));
    const { started = [], presumed = [], unstarted = [] } = fates;
    if (unstarted.length > 0) await this.#putBack(workerId, unstarted);
    const { workers } = this.#options.database;
    if (started.length > 0) this.#conclude(await this.#settle(workers, workerId, started));
    if (presumed.length > 0) this.#conclude(await this.#settlePresumed(workerId, presumed));
  }

  /**
   * Records a start for jobs whose worker may have called their handlers, and ends it. They get another attempt for the one that may
   * not have happened. One transaction, so that a rescuer that dies in between leaves no attempt that counts.
   */
  #settlePresumed(workerId: number, orphans: readonly NamedOrphan[]): Promise<Rescued> {
    return inTransaction(this.#options.database.workers, async (client) => {
      const { presumed } = await presumeStarted(client, { workerId, beat: beatOf(orphans), jobs: orphans });
      const started = orphans
        .filter(({ leaseSeq }) => presumed.has(leaseSeq))
        .map((orphan) => ({ ...orphan, attemptsStarted: orphan.attemptsStarted + 1 }));
      return started.length === 0 ? NONE : this.#settle(client, workerId, started);
    });
  }

  async #settle(db: Queryable, workerId: number, started: readonly NamedOrphan[]): Promise<Rescued> {
    const settlements = await Promise.all(started.map((orphan) => this.#settlementOf(orphan)));
    const jobs = settlements.map(({ row }) => row);
    const { landed, stopped, released } = await settleOrphans(db, { workerId, beat: beatOf(started), jobs });
    const rescues = settlements
      .filter(({ row }) => landed.has(row.leaseSeq))
      .map((each) => (stopped.has(each.row.leaseSeq) ? cancelledInstead(each) : each));
    return { rescues, released };
  }

  #conclude({ rescues, released }: Rescued): void {
    for (const rescue of rescues) this.#report(rescue);
    if (released) this.#options.onReleased();
  }

  async #putBack(workerId: number, unstarted: readonly NamedOrphan[]): Promise<void> {
    const { database, events, onReleased } = this.#options;
    const { landed, cancelled, released } = await returnExpired(database.workers, {
      workerId,
      beat: beatOf(unstarted),
      jobs: unstarted,
    });
    for (const orphan of unstarted) {
      if (landed.has(orphan.leaseSeq)) events.emit('unclaimed', factsOf(orphan));
      if (cancelled.has(orphan.leaseSeq)) events.emit('cancelled', factsOf(orphan));
    }
    if (released) onReleased();
  }

  #report({ orphan, row, decision }: Rescue): void {
    if (decision.failure === undefined) return;
    const outcome = { state: row.to, failure: decision.failure, delayMs: row.delayMs };
    this.#options.events.emit('rescued', { ...factsOf(orphan), ...outcome });
  }

  async #settlementOf(orphan: NamedOrphan): Promise<Rescue> {
    const policy = await this.#options.policies.policyOf(orphan.policyId);
    const outcome = orphan.cancelRequested
      ? ({ kind: 'cancelled' } as const)
      : ({ kind: 'worker_lost', wasStalled: orphan.wasStalled } as const);
    const { row, decision } = settlement({ job: orphan, policy, outcome, elapsedMs: 0 });
    return { orphan, decision, row: { ...row, refundsAttempt: orphan.mayRun && row.to === 'retrying' } };
  }
}

function fateOf({ state, mayRun }: Orphan, policy: Policy | undefined): 'started' | 'presumed' | 'unstarted' {
  if (state === 'running') return 'started';
  return mayRun && policy?.onOrphan !== 'fail' ? 'presumed' : 'unstarted';
}

/** All orphans come from one look at one worker. */
const beatOf = ([first]: readonly Orphan[]): number | null =>
  first === undefined || first.worker.kind === 'gone' ? null : first.worker.beat;
