import { BoundedTasks } from '../../core/bounded-tasks.ts';
import { AppError } from '../../core/errors.ts';
import { TurnsOfOrgs } from './turns-of-orgs.ts';

type Task = { readonly orgId: string; readonly untilMs: number; run(): Promise<void>; refuse(): void };

export type LargeWritesOptions = {
  maxAtOnce?: number;
  /** How many may wait for their turn. */
  maxWaiting?: number;
  /** A write that waited longer than this is not made. */
  maxWaitMs?: number;
};

/**
 * Lets a few transactions that write hundreds of rows run at a time, and orgs take turns. Such transactions wait for each other whenever a table
 * grows, and that wait counts as a lock. With ten at a time on two processors, up to half of them met the lock timeout, rolled back, and wrote all
 * rows again.
 */
export class LargeWrites {
  readonly #maxWaiting: number;
  readonly #maxWaitMs: number;
  readonly #line = new TurnsOfOrgs<Task>();
  readonly #tasks: BoundedTasks;
  #waiting = 0;

  constructor({ maxAtOnce = 2, maxWaiting = 256, maxWaitMs = 5_000 }: LargeWritesOptions = {}) {
    this.#maxWaiting = maxWaiting;
    this.#maxWaitMs = maxWaitMs;
    this.#tasks = new BoundedTasks(maxAtOnce, () => this.#next());
  }

  run<T>(orgId: string, work: () => Promise<T>): Promise<T> {
    if (this.#waiting >= this.#maxWaiting) return Promise.reject(refusal());
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting++;
    this.#line.push({
      orgId,
      untilMs: performance.now() + this.#maxWaitMs,
      run: () => work().then(resolve, reject),
      refuse: () => reject(refusal()),
    });
    this.#tasks.pump();
    return promise;
  }

  #next(): (() => Promise<void>) | undefined {
    for (let task = this.#line.shift(); task !== undefined; task = this.#line.shift()) {
      this.#waiting--;
      if (performance.now() <= task.untilMs) return task.run;
      task.refuse();
    }
    return undefined;
  }
}

const refusal = (): AppError => {
  const message = 'Too many large submissions wait to be written. Try again later.';
  return new AppError('UNAVAILABLE', { message, retryAfterMs: 1_000 });
};
