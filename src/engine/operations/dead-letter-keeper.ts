import type { DeadLetterTerms } from '../../core/governance/dead-letter.ts';
import { alertEntries, pruneEntries } from '../../ledger/dead-letters/upkeep.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { pruneOperations } from '../../ledger/operations/read-operations.ts';
import type { EventHub } from '../events.ts';
import { Loop, LoopGroup } from '../loop.ts';

const ALERT_LIMIT = 1_000;
const ALERT_EVERY_MS = 1_000;
const PRUNE_LIMIT = 1_000;
const PRUNE_EVERY_MS = 300_000;
const PRUNE_AGAIN_MS = 100;
const PRUNE_FIRST_WITHIN_MS = 30_000;

/** Raises alerts for jobs that died, and removes entries and operations past their retention. */
export class DeadLetterKeeper extends LoopGroup {
  readonly #database: Database;
  readonly #terms: DeadLetterTerms;
  protected readonly loops: readonly Loop[];

  constructor({ database, events, terms }: { database: Database; events: EventHub; terms: DeadLetterTerms }) {
    super();
    this.#database = database;
    this.#terms = terms;
    this.loops = [
      new Loop({ name: 'dead letter alerts', round: () => this.#alert(), events, firstWithinMs: ALERT_EVERY_MS }),
      new Loop({ name: 'dead letter retention', round: () => this.#prune(), events, firstWithinMs: PRUNE_FIRST_WITHIN_MS }),
    ];
  }

  async #alert(): Promise<number> {
    const entries = await alertEntries(this.#database.maintenance, ALERT_LIMIT);
    return entries < ALERT_LIMIT ? ALERT_EVERY_MS : 0;
  }

  async #prune(): Promise<number> {
    const { retentionMs } = this.#terms;
    const bounds = { retentionMs, limit: PRUNE_LIMIT };
    const entries = await pruneEntries(this.#database.maintenance, bounds);
    const operations = await pruneOperations(this.#database.maintenance, bounds);
    return Math.max(entries, operations) < PRUNE_LIMIT ? PRUNE_EVERY_MS : PRUNE_AGAIN_MS;
  }
}
