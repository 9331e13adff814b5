import { recogniseRestore } from '../../ledger/driver/cluster.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { projectRollups, pruneRollups } from '../../ledger/history/rollups.ts';
import { noteSettled } from '../../ledger/search/search-settling.ts';
import type { EventHub } from '../events.ts';
import { Loop, type Service } from '../loop.ts';

/** Readers add the records that are not summed up yet, so a round can wait. Larger rounds cost less per job. */
const IDLE_MS = 2_000;
const PRUNE_LIMIT = 10_000;
const PRUNE_EVERY_MS = 300_000;
const PRUNE_FIRST_WITHIN_MS = 60_000;

/**
 * Adds up the history, so that counts and searches need not read all of it. Every process has a projector. One of them does the
 * round, and the others find nothing to do.
 */
export class Projector implements Service {
  readonly #database: Database;
  readonly #loops: Loop[];
  readonly #events: EventHub;

  constructor({ database, events }: { database: Database; events: EventHub }) {
    const onError = (error: unknown, where: string) => events.emit('error', { error, where });
    this.#database = database;
    this.#events = events;
    this.#loops = [
      new Loop({ name: 'projector', round: () => this.round(), onError, firstWithinMs: IDLE_MS }),
      new Loop({ name: 'rollup pruner', round: () => this.#prune(), onError, firstWithinMs: PRUNE_FIRST_WITHIN_MS }),
    ];
  }

  start(): void {
    for (const loop of this.#loops) loop.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
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
    const pruned = await pruneRollups(this.#database.projecting, PRUNE_LIMIT);
    return pruned >= PRUNE_LIMIT ? 1_000 : PRUNE_EVERY_MS;
  }
}
