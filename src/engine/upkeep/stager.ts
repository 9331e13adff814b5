import type { Database } from '../../ledger/driver/database.ts';
import { stageJobs } from '../../ledger/upkeep/stage-jobs.ts';
import type { EventHub } from '../events.ts';
import { LoopService } from '../loop.ts';

const LIMIT = 1_000;
const MAX_WAIT_MS = 500;
/** The wait if other transactions hold most of the due jobs. */
const HELD_WAIT_MS = 200;
/** How often the floor is dropped. It saves scanning dead index entries again, but timers that commit late may be below it. */
const FLOOR_RESET_MS = 2_000;

/** Makes delayed and retrying jobs ready when they are due. Any number of processes may run one. */
export class Stager extends LoopService {
  readonly #database: Database;
  readonly #events: EventHub;
  readonly #onStaged: () => void;
  #floor: Date | null = null;
  #floorResetMs = 0;

  constructor(params: { database: Database; events: EventHub; onStaged(): void }) {
    super({ name: 'stager', events: params.events });
    this.#database = params.database;
    this.#events = params.events;
    this.#onStaged = params.onStaged;
  }

  override wake(): void {
    this.#floor = null;
    super.wake();
  }

  async round(): Promise<number> {
    const nowMs = performance.now();
    if (nowMs - this.#floorResetMs > FLOOR_RESET_MS) {
      this.#floor = null;
      this.#floorResetMs = nowMs;
    }
    const asked = { limit: LIMIT, floor: this.#floor, namesJobs: this.#events.hasListeners('staged') };
    const { staged, held, nextInMs, floor, jobs } = await stageJobs(this.#database.workers, asked);
    this.#floor = floor;
    if (staged > 0) this.#onStaged();
    if (jobs.length > 0) this.#events.emit('staged', { jobs });
    const waitMs = Math.max(0, Math.min(MAX_WAIT_MS, nextInMs ?? MAX_WAIT_MS));
    return held > staged ? Math.max(HELD_WAIT_MS, waitMs) : waitMs;
  }
}
