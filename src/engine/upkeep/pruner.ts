import { buryWorkers } from '../../ledger/attempts/find-orphans.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { analyzeHistory } from '../../ledger/history/analyze-history.ts';
import { dropOldPartitions, ensurePartitions, sweepDefaultPartition } from '../../ledger/history/record-partitions.ts';
import { expireJobs } from '../../ledger/upkeep/expire-jobs.ts';
import { pruneJobs } from '../../ledger/upkeep/prune.ts';
import { pruneAccess } from '../../ledger/upkeep/prune-keys.ts';
import type { EventHub } from '../events.ts';
import { Loop, type Service } from '../loop.ts';
import { PolicySweeper } from './policy-sweeper.ts';

const EXPIRE_LIMIT = 1_000;
const PRUNE_LIMIT = 1_000;
const EXPIRE_EVERY_MS = 60_000;
const PRUNE_EVERY_MS = 300_000;
/** A process that has just started may look before what is old was added up and told. It looks again soon. */
const PRUNE_SECOND_MS = 15_000;
/** There is more to go: leave the database to others for a moment. */
const PRUNE_AGAIN_MS = 100;
const TIDY_EVERY_MS = 300_000;
/** A dump or a long transaction holds the history: a partition is still missing. */
const TIDY_AGAIN_MS = 30_000;
const DAYS_AHEAD = 7;

export type PrunerParams = {
  database: Database;
  events: EventHub;
  expireEveryMs?: number;
  /** How long a revoked key is remembered. A process that was not told leaves them to those that were. */
  revokedKeysMs?: number;
  /** Nothing is owed to anybody at once, and processes that start together should not all begin with it. */
  firstWithinMs?: number;
  onReleased(): void;
};

const FIRST_WITHIN_MS = 20_000;

/** Ends jobs that outlived their lifetime, removes what retention no longer keeps, and makes room for coming days. */
export class Pruner implements Service {
  readonly #params: PrunerParams;
  readonly #loops: Loop[];
  #hasPruned = false;

  constructor(params: PrunerParams) {
    this.#params = params;
    const { events, expireEveryMs = EXPIRE_EVERY_MS, firstWithinMs = FIRST_WITHIN_MS } = params;
    const onError = (error: unknown, where: string) => events.emit('error', { error, where });
    const sweeper = new PolicySweeper(params.database);
    // However much there is to prune, the days to come are made and the dead are buried.
    this.#loops = [
      new Loop({
        ...{ name: 'expirer', round: () => this.#expire(expireEveryMs), onError },
        firstWithinMs: Math.min(expireEveryMs, firstWithinMs),
      }),
      new Loop({ name: 'pruner', round: () => this.#prune(), onError, firstWithinMs }),
      new Loop({ name: 'tidier', round: () => this.#tidy(), onError, firstWithinMs }),
      new Loop({ name: 'policy sweeper', round: () => sweeper.round(), onError, firstWithinMs }),
    ];
  }

  start(): void {
    for (const loop of this.#loops) loop.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
  }

  async #expire(everyMs: number): Promise<number> {
    const { again, released } = await expireJobs(this.#params.database.maintenance, EXPIRE_LIMIT);
    if (released) this.#params.onReleased();
    return again ? 0 : everyMs;
  }

  async #prune(): Promise<number> {
    const { database, revokedKeysMs = null } = this.#params;
    const pruned = await pruneJobs(database.maintenance, PRUNE_LIMIT);
    const access = await pruneAccess(database.maintenance, { revokedKeysMs, limit: PRUNE_LIMIT });
    const hasMore = Object.values({ ...pruned, ...access }).some((count) => count >= PRUNE_LIMIT);
    if (hasMore) return PRUNE_AGAIN_MS;
    const delayMs = this.#hasPruned ? PRUNE_EVERY_MS : PRUNE_SECOND_MS;
    this.#hasPruned = true;
    return delayMs;
  }

  async #tidy(): Promise<number> {
    const { maintenance } = this.#params.database;
    const { isComplete } = await ensurePartitions(maintenance, { daysAhead: DAYS_AHEAD });
    await buryWorkers(maintenance);
    await dropOldPartitions(maintenance);
    await sweepDefaultPartition(maintenance);
    await analyzeHistory(maintenance);
    return isComplete ? TIDY_EVERY_MS : TIDY_AGAIN_MS;
  }
}
