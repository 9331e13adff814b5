import type { Database } from '../ledger/database.ts';
import { releaseDependents } from '../ledger/release-dependents.ts';
import type { EventHub } from './events.ts';
import { Loop, type Service } from './loop.ts';

const LIMIT = 100;
const POLL_MS = 1_000;

/** Moves the jobs that waited for one that ended. The ledger keeps the list; this loop may miss every hint. */
export class Releaser implements Service {
  readonly #loop: Loop;

  constructor(params: { database: Database; events: EventHub; onReleased(): void }) {
    this.#loop = new Loop({
      name: 'releaser',
      round: async () => {
        const { consumed, again } = await releaseDependents(params.database.workers, LIMIT);
        if (consumed > 0) params.onReleased();
        return again ? 0 : POLL_MS;
      },
      onError: (error, where) => params.events.emit('error', { error, where }),
    });
  }

  start(): void {
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  wake(): void {
    this.#loop.wake();
  }
}
