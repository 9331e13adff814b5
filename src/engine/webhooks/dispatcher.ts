import type { Database } from '../../ledger/driver/database.ts';
import type { SetAside } from '../../ledger/history/set-aside.ts';
import { dispatchEvents } from '../../ledger/webhooks/dispatch-events.ts';
import { makeLanesDue } from '../../ledger/webhooks/queue-deliveries.ts';
import type { EventHub } from '../events.ts';
import { LoopService } from '../loop.ts';

/**
 * How soon an event is seen if an org has a target, and if none has one yet. The next look comes sooner if jobs have
 * just moved, or if an older transaction delays their events, so that they do not wait for another interval.
 */
const POLL_MS = { lively: 10, watched: 50, unwatched: 1_000 };
const FEW_EVENTS = 1_000;
const MAX_RECORDS = 16_384;
const FIRST_RECORDS = 512;

export type DispatcherParams = { database: Database; events: EventHub; onQueued(): void };

/** Turns events into deliveries. Every process has one, and only one at a time does the round. */
export class Dispatcher extends LoopService {
  readonly #params: DispatcherParams;
  #records = FIRST_RECORDS;

  constructor(params: DispatcherParams) {
    super({ name: 'dispatcher', events: params.events });
    this.#params = params;
  }

  async round(): Promise<number> {
    const { database, events, onQueued } = this.#params;
    const done = await dispatchEvents(database.maintenance, { records: this.#records });
    if (done.kind === 'busy') return POLL_MS.watched;
    for (const item of done.setAside) events.emit('setAside', factsOf(item));
    if (done.webhookIds.length > 0) {
      await makeLanesDue(database.maintenance, done.webhookIds);
      onQueued();
    }
    // Records of orgs without a target cost little, so a page may skip many of them.
    const isQuick = done.hasMore && done.events < FEW_EVENTS;
    this.#records = isQuick ? Math.min(MAX_RECORDS, this.#records * 2) : FIRST_RECORDS;
    if (done.hasMore) return 0;
    if (!done.hasTargets) return POLL_MS.unwatched;
    return done.isHeld || done.isLively ? POLL_MS.lively : POLL_MS.watched;
  }
}

const factsOf = ({ projection, orgId, recordId, seq, webhookId, error }: SetAside) => ({
  projection,
  orgId,
  recordId,
  jobSeq: seq,
  webhookId,
  error,
});
