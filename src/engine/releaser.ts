import type { Database } from '../ledger/database.ts';
import { releaseDependents } from '../ledger/release-dependents.ts';
import type { EventHub } from './events.ts';
import { Periodic } from './periodic.ts';

const LIMIT = 100;
const POLL_MS = 1_000;

export type ReleaserParams = { database: Database; events: EventHub; onReleased(): void };

/** Moves the jobs that waited for one that ended. The ledger keeps the list; this loop may miss every hint. */
export class Releaser extends Periodic {
  readonly #params: ReleaserParams;

  constructor(params: ReleaserParams) {
    super({ name: 'releaser', events: params.events });
    this.#params = params;
  }

  async round(): Promise<number> {
    const { consumed, again } = await releaseDependents(this.#params.database.workers, LIMIT);
    if (consumed > 0) this.#params.onReleased();
    return again ? 0 : POLL_MS;
  }
}
