import { recogniseRestore } from '../../ledger/driver/cluster.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { projectRollups, pruneRollups } from '../../ledger/history/rollups.ts';
import { noteSettled } from '../../ledger/search/search-settling.ts';
import { isMaintainedByJobs } from '../../ledger/upkeep/maintenance-tasks.ts';
import type { EventHub } from '../events.ts';
import { Loop, LoopGroup } from '../loop.ts';

/** Rounds are not urgent, because readers add what is not summed up yet. Larger rounds cost less for each job. */
const IDLE_MS = 2_000;
const PRUNE_LIMIT = 10_000;
const PRUNE_EVERY_MS = 300_000;
const PRUNE_FIRST_WITHIN_MS = 60_000;

/**
 * Adds up events into rollups, so that counting and searching need not read all of them. Every process has one, and
 * only one at a time does the round.
 */
export class RollupWriter extends LoopGroup {
  readonly #database: Database;
  protected readonly loops: readonly Loop[];
  readonly #events: EventHub;

  constructor({ database, events }: { database: Database; events: EventHub }) {
    super();
    this.#database = database;
    this.#events = events;
    this.loops = [
      new Loop({ name: 'rollup writer', round: () => this.round(), events, firstWithinMs: IDLE_MS }),
      new Loop({ name: 'rollup pruner', round: () => this.#prune(), events, firstWithinMs: PRUNE_FIRST_WITHIN_MS }),
    ];
  }

  async round(): Promise<number> {
    // A database may be restored under a running process.
    await recogniseRestore(this.#database.maintenance);
    await noteSettled(this.#database.maintenance);
    const projected = await projectRollups(this.#database.projecting);
    if (projected.kind === 'busy') return IDLE_MS;
    for (const { seq, ...item } of projected.setAside) this.#events.emit('setAside', { ...item, jobSeq: seq });
    return projected.hasMore ? 0 : IDLE_MS;
  }

  async #prune(): Promise<number> {
    if (await isMaintainedByJobs(this.#database.maintenance)) return PRUNE_EVERY_MS;
    const pruned = await pruneRollups(this.#database.projecting, PRUNE_LIMIT);
    return pruned >= PRUNE_LIMIT ? 1_000 : PRUNE_EVERY_MS;
  }
}
