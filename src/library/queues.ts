import type { Engine } from '../engine/engine.ts';
import { pauseType, resumeType, setTypeConcurrency } from '../ledger/job-types.ts';
import { setOrgCap } from '../ledger/orgs.ts';
import { type ClaimOrder, configureQueue, type Queue, readQueues } from '../ledger/queues.ts';

/** What an operator can turn: queues, types and caps, for all processes at once. */
export class Queues {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  list(): Promise<Queue[]> {
    return readQueues(this.#engine.database.api);
  }

  /** `fifo` serves by priority and submission over all orgs; `fair` lets orgs take turns. */
  async configure(queue: string, change: { order: ClaimOrder }): Promise<void> {
    await configureQueue(this.#engine.database.api, { name: queue, order: change.order });
    await this.#changed();
  }

  async pause(queue: string): Promise<void> {
    await configureQueue(this.#engine.database.api, { name: queue, paused: true });
  }

  async resume(queue: string): Promise<void> {
    await configureQueue(this.#engine.database.api, { name: queue, paused: false });
    this.#engine.hint('ready');
  }

  async pauseType(type: string): Promise<void> {
    await pauseType(this.#engine.database.api, type);
  }

  async resumeType(type: string): Promise<void> {
    await resumeType(this.#engine.database.api, type);
    this.#engine.hint('ready');
  }

  /** At most this many jobs of the type run at once, over all workers; null lifts the cap. */
  async capType(type: string, concurrency: number | null): Promise<void> {
    await setTypeConcurrency(this.#engine.database.api, type, concurrency);
    await this.#changed();
  }

  /** At most this many jobs of the org run at once, over all workers; null lifts the cap. */
  async capOrg(orgId: string, running: number | null): Promise<void> {
    await setOrgCap(this.#engine.database.api, orgId, running);
    await this.#changed();
  }

  async #changed(): Promise<void> {
    await this.#engine.settings.refresh();
    this.#engine.hint('settings');
    this.#engine.hint('ready');
  }
}
