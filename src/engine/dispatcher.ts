import type { Database } from '../ledger/database.ts';
import { dispatchEvents } from '../ledger/dispatch-events.ts';
import { makeLanesDue } from '../ledger/queue-deliveries.ts';
import type { EventHub } from './events.ts';
import { Periodic } from './periodic.ts';

/**
 * How soon an event is seen where somebody waits for events, and where nobody does yet. Where jobs have just moved, anybody's, or what
 * moved is held back by a transaction that began before it, the next look is soon: a whole interval more would be felt.
 */
const POLL_MS = { lively: 10, watched: 50, unwatched: 1_000 };
const FEW_EVENTS = 1_000;
const MAX_TRANSACTIONS = 16_384;
const FIRST_TRANSACTIONS = 512;

export type DispatcherParams = { database: Database; events: EventHub; onQueued(): void };

/**
 * Turns events into deliveries. Every process has one; whichever comes first does the round, the others find nothing to do.
 */
export class Dispatcher extends Periodic {
  readonly #params: DispatcherParams;
  #transactions = FIRST_TRANSACTIONS;

  constructor(params: DispatcherParams) {
    super({ name: 'dispatcher', events: params.events });
    this.#params = params;
  }

  async round(): Promise<number> {
    const { database, onQueued } = this.#params;
    const done = await dispatchEvents(database.maintenance, this.#transactions);
    if (done.kind === 'busy') return POLL_MS.watched;
    if (done.webhookIds.length > 0) {
      await makeLanesDue(database.maintenance, done.webhookIds);
      onQueued();
    }
    // Other orgs' transactions cost little, so many are passed over at once.
    const isQuick = done.hasMore && done.events < FEW_EVENTS;
    this.#transactions = isQuick ? Math.min(MAX_TRANSACTIONS, this.#transactions * 2) : FIRST_TRANSACTIONS;
    if (done.hasMore) return 0;
    if (!done.hasTargets) return POLL_MS.unwatched;
    return done.isHeld || done.isLively ? POLL_MS.lively : POLL_MS.watched;
  }
}
