import type { Database } from '../ledger/database.ts';
import { projectRollups, pruneRollups } from '../ledger/rollups.ts';
import type { EventHub } from './events.ts';
import { Loop, type Service } from './loop.ts';

/** Events that a round should have: enough to be worth a statement, few enough for a short one. */
const ROUND_EVENTS = { least: 10_000, most: 40_000 };
const MAX_TRANSACTIONS = 16_384;
/** Readers add what is not summed up yet, so there is no hurry; larger rounds cost less a job. */
const IDLE_MS = 2_000;
const PRUNE_LIMIT = 10_000;
const PRUNE_EVERY_MS = 300_000;
const PRUNE_FIRST_WITHIN_MS = 60_000;

/**
 * Adds up what happened, so that counting and searching need not read it all. Every process has one; whichever comes first does
 * the round, the others find nothing to do.
 */
export class Projector implements Service {
  readonly #database: Database;
  readonly #loops: Loop[];
  /** How many make a round's events depends on how many jobs share one. */
  #transactions = 256;

  constructor({ database, events }: { database: Database; events: EventHub }) {
    const onError = (error: unknown, where: string) => events.emit('error', { error, where });
    this.#database = database;
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
    const projected = await projectRollups(this.#database.projecting, this.#transactions);
    if (projected.kind === 'busy') return IDLE_MS;
    if (projected.events > ROUND_EVENTS.most) this.#transactions = Math.max(1, this.#transactions >> 1);
    else if (projected.hasMore && projected.events < ROUND_EVENTS.least)
      this.#transactions = Math.min(MAX_TRANSACTIONS, this.#transactions * 2);
    return projected.hasMore ? 0 : IDLE_MS;
  }

  async #prune(): Promise<number> {
    const pruned = await pruneRollups(this.#database.projecting, PRUNE_LIMIT);
    return pruned >= PRUNE_LIMIT ? 1_000 : PRUNE_EVERY_MS;
  }
}
