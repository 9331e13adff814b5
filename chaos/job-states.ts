/** Waits until jobs reach a state, as another session of the database sees it. */
import pg from 'pg';
import type { JobState } from '../src/core/states.ts';

type Awaited = { states: readonly JobState[]; reached: PromiseWithResolvers<number> };

const EVERY_MS = 10;
const READ = 'SELECT id, state FROM millrace.jobs WHERE id = ANY ($1::uuid[])';

export class JobStates {
  readonly #client: pg.Client;
  readonly #awaited = new Map<string, Awaited>();
  #timer: NodeJS.Timeout | undefined;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  static async open(url: string): Promise<JobStates> {
    const client = new pg.Client(url);
    await client.connect();
    return new JobStates(client);
  }

  /** Resolves with the time at which the job was seen in one of the states. */
  until(jobId: string, states: readonly JobState[]): Promise<number> {
    const reached = Promise.withResolvers<number>();
    this.#awaited.set(jobId, { states, reached });
    this.#timer ??= setTimeout(() => void this.#look(), EVERY_MS);
    return reached.promise;
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#awaited.clear();
    await this.#client.end();
  }

  async #look(): Promise<void> {
    const { rows } = await this.#client.query<{ id: string; state: JobState }>(READ, [[...this.#awaited.keys()]]);
    const seenMs = performance.timeOrigin + performance.now();
    for (const { id, state } of rows) {
      const awaited = this.#awaited.get(id);
      if (awaited === undefined || !awaited.states.includes(state)) continue;
      this.#awaited.delete(id);
      awaited.reached.resolve(seenMs);
    }
    this.#timer = this.#awaited.size === 0 ? undefined : setTimeout(() => void this.#look(), EVERY_MS);
  }
}
