import type { Database } from '../../ledger/driver/database.ts';
import { countQueueStarts, forgetQueueStarts } from '../../ledger/queues/queue-starts.ts';
import type { EventHub } from '../events.ts';
import { Loop, LoopGroup } from '../loop.ts';

const COUNT_EVERY_MS = 2_000;
const FORGET_EVERY_MS = 600_000;

/** Counts how long jobs waited for their starts, by queue, so that operators see whether a queue meets its target. */
export class QueueWatch extends LoopGroup {
  protected readonly loops: readonly Loop[];

  constructor({ database, events }: { database: Database; events: EventHub }) {
    super();
    this.loops = [
      new Loop({ name: 'queue watch', round: () => this.#count(database), events, firstWithinMs: COUNT_EVERY_MS }),
      new Loop({ name: 'queue watch cleanup', round: () => this.#forget(database), events, firstWithinMs: FORGET_EVERY_MS }),
    ];
  }

  async #count({ maintenance }: Database): Promise<number> {
    return (await countQueueStarts(maintenance)) ? 100 : COUNT_EVERY_MS;
  }

  async #forget({ maintenance }: Database): Promise<number> {
    await forgetQueueStarts(maintenance);
    return FORGET_EVERY_MS;
  }
}
