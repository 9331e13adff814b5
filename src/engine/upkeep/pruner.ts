import { buryWorkers } from '../../ledger/attempts/find-orphans.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { analyzeHistory } from '../../ledger/history/analyze-history.ts';
import { dropOldPartitions, ensurePartitions, sweepDefaultPartition } from '../../ledger/history/record-partitions.ts';
import { expireJobs } from '../../ledger/upkeep/expire-jobs.ts';
import { pruneLimits } from '../../ledger/upkeep/grant-limited.ts';
import { isMaintainedByJobs } from '../../ledger/upkeep/maintenance-tasks.ts';
import { pruneJobs } from '../../ledger/upkeep/prune.ts';
import { pruneBatches } from '../../ledger/upkeep/prune-batches.ts';
import { pruneAccess } from '../../ledger/upkeep/prune-keys.ts';
import type { EventHub } from '../events.ts';
import { Loop, LoopGroup } from '../loop.ts';
import { reportMoves } from '../report-moves.ts';
import { PolicySweeper } from './policy-sweeper.ts';

const EXPIRE_LIMIT = 1_000;
const PRUNE_LIMIT = 1_000;
const EXPIRE_EVERY_MS = 60_000;
const PRUNE_EVERY_MS = 300_000;
/** When a process has just started, old jobs may not be counted and delivered yet. So the second round comes soon. */
const PRUNE_SECOND_MS = 15_000;
/** There is more to prune. The pause leaves the database to other work. */
const PRUNE_AGAIN_MS = 100;
/** Processes that hand out a limit record that at least once an hour. */
const UNUSED_LIMIT_MS = 86_400_000;
const TIDY_EVERY_MS = 300_000;
/** A partition is still missing, because a dump or a long transaction holds the history. */
const TIDY_AGAIN_MS = 30_000;
const DAYS_AHEAD = 7;

export type PrunerParams = {
  database: Database;
  events: EventHub;
  expireEveryMs?: number;
  /** How long a revoked key is kept. A process without this setting removes none. */
  revokedKeysMs?: number;
  /** No round is urgent, and processes that start together should not all begin with one. */
  firstWithinMs?: number;
  onReleased(): void;
};

const FIRST_WITHIN_MS = 20_000;

/**
 * Ends jobs past their lifetime, removes data past its retention, and creates the partitions of the coming days. While a process runs
 * maintenance as jobs, the pruner leaves the removal to them (decision 0067). It creates partitions in any case: the engine needs them to
 * write, even if maintenance is paused.
 */
export class Pruner extends LoopGroup {
  readonly #params: PrunerParams;
  protected readonly loops: readonly Loop[];
  #hasPruned = false;

  constructor(params: PrunerParams) {
    super();
    this.#params = params;
    const { events, expireEveryMs = EXPIRE_EVERY_MS, firstWithinMs = FIRST_WITHIN_MS } = params;
    const sweeper = new PolicySweeper(params.database);
    // These are separate loops, so that a long prune does not delay new partitions or the removal of dead workers.
    this.loops = [
      new Loop({
        name: 'expirer',
        round: () => this.#expire(expireEveryMs),
        events,
        firstWithinMs: Math.min(expireEveryMs, firstWithinMs),
      }),
      new Loop({ name: 'pruner', round: () => this.#prune(), events, firstWithinMs }),
      new Loop({ name: 'tidier', round: () => this.#tidy(), events, firstWithinMs }),
      new Loop({ name: 'policy sweeper', round: () => sweeper.round(), events, firstWithinMs }),
    ];
  }

  async #expire(everyMs: number): Promise<number> {
    const { database, events, onReleased } = this.#params;
    const { again, released, jobs } = await expireJobs(database.maintenance, EXPIRE_LIMIT);
    reportMoves(events, jobs);
    if (released) onReleased();
    return again ? 0 : everyMs;
  }

  async #prune(): Promise<number> {
    const { database, revokedKeysMs = null } = this.#params;
    if (await isMaintainedByJobs(database.maintenance)) return PRUNE_EVERY_MS;
    const pruned = await pruneJobs(database.maintenance, PRUNE_LIMIT);
    const access = await pruneAccess(database.maintenance, { revokedKeysMs, limit: PRUNE_LIMIT });
    const limits = await pruneLimits(database.maintenance, { unusedMs: UNUSED_LIMIT_MS, limit: PRUNE_LIMIT });
    const batches = await pruneBatches(database.maintenance, PRUNE_LIMIT);
    const hasMore = Object.values({ ...pruned, ...access, limits, batches }).some((count) => count >= PRUNE_LIMIT);
    if (hasMore) return PRUNE_AGAIN_MS;
    const delayMs = this.#hasPruned ? PRUNE_EVERY_MS : PRUNE_SECOND_MS;
    this.#hasPruned = true;
    return delayMs;
  }

  async #tidy(): Promise<number> {
    const { maintenance } = this.#params.database;
    const { isComplete } = await ensurePartitions(maintenance, { daysAhead: DAYS_AHEAD });
    await buryWorkers(maintenance);
    if (!(await isMaintainedByJobs(maintenance))) {
      await dropOldPartitions(maintenance);
      await sweepDefaultPartition(maintenance);
      await analyzeHistory(maintenance);
    }
    return isComplete ? TIDY_EVERY_MS : TIDY_AGAIN_MS;
  }
}
