import type { Database } from '../../ledger/driver/database.ts';
import { type ReleasePosition, releaseDependents } from '../../ledger/upkeep/release-dependents.ts';
import type { EventHub } from '../events.ts';
import { LoopService } from '../loop.ts';
import { reportMoves } from '../report-moves.ts';

const LIMIT = 100;
const POLL_MS = 1_000;
/** Another transaction has locked some of the rows, mostly for a moment. */
const HELD_MS = 100;

export type ReleaserParams = { database: Database; events: EventHub; onReleased(): void };

/** Moves the dependents of jobs that have ended. The ledger keeps the list, so the releaser may miss every hint. */
export class Releaser extends LoopService {
  readonly #params: ReleaserParams;
  #position: ReleasePosition | undefined;

  constructor(params: ReleaserParams) {
    super({ name: 'releaser', events: params.events });
    this.#params = params;
  }

  async round(): Promise<number> {
    const { database, events, onReleased } = this.#params;
    const asked = { position: this.#position, namesAll: events.hasListeners('released') };
    const { moved, again, putOff, failed, next, jobs } = await releaseDependents(database.workers, LIMIT, asked);
    this.#position = next;
    reportMoves(events, jobs, { event: 'released' });
    if (moved > 0) onReleased();
    for (const { orgId, seq, error } of failed) {
      const message = `The jobs that wait for job ${seq} of org ${orgId} could not be released. This is retried later.`;
      events.emit('error', { error: new Error(message, { cause: error }), where: 'releaser' });
    }
    if (again) return 0;
    return putOff ? HELD_MS : POLL_MS;
  }
}
