import { Loop, type Service } from '../../engine/loop.ts';
import { isContended } from '../../ledger/driver/statement.ts';
import { orgsWithTasks } from '../../ledger/ingest/task-intake.ts';
import type { IngestContext } from './context.ts';
import { takeTasks } from './take-tasks.ts';

const IDLE_EVERY_MS = 5_000;
/** Tasks wait, but the queue is full or another process takes them. */
const HELD_EVERY_MS = 1_000;

/**
 * Makes downloads of the tasks that direct producers publish, one page of each org after the other. An insert wakes it. Several processes
 * may run it: each takes other rows.
 */
export class Intake implements Service {
  readonly #context: IngestContext;
  readonly #loop: Loop;

  constructor(context: IngestContext) {
    this.#context = context;
    this.#loop = new Loop({ name: 'task intake', round: () => this.round(), events: context.engine.events });
  }

  start(): void {
    this.#context.engine.onIntake = () => this.#loop.wake();
    this.#loop.start();
  }

  async stop(): Promise<void> {
    this.#context.engine.onIntake = () => {};
    await this.#loop.stop();
  }

  /** Returns the delay until the next round. */
  async round(): Promise<number> {
    const orgIds = await orgsWithTasks(this.#context.engine.database.maintenance);
    let taken = 0;
    for (const orgId of orgIds) taken += await this.#take(orgId);
    if (taken > 0) return 0;
    return orgIds.length > 0 ? HELD_EVERY_MS : IDLE_EVERY_MS;
  }

  /** The tasks of one org never hold up those of another. */
  async #take(orgId: string): Promise<number> {
    try {
      return await takeTasks(this.#context, orgId);
    } catch (error) {
      // Another transaction holds a job of the org. The next round comes back to it.
      if (!isContended(error)) this.#context.engine.events.emit('error', { error, where: 'task intake' });
      return 0;
    }
  }
}
