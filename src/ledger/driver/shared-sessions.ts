import type pg from 'pg';

/**
 * Lets several pools of a process share a few sessions. Each pool may always have one, so that no kind of work waits for another.
 * The pool that needs a second one first gets one of the extra sessions, and gives it up when it has been idle for a moment.
 */
export class SharedSessions {
  static readonly POOL = { min: 1, max: 1, idleTimeoutMillis: 2_000 };
  readonly #pools: pg.Pool[] = [];
  readonly #extra: number;

  constructor(extra: number) {
    this.#extra = extra;
  }

  /** From here on the size of the pool depends on what the others have. */
  admit(pool: pg.Pool): void {
    this.#pools.push(pool);
    Object.defineProperty(pool.options, 'max', { get: () => Math.max(1, pool.totalCount + this.#free()) });
  }

  #free(): number {
    let taken = 0;
    for (const pool of this.#pools) taken += Math.max(0, pool.totalCount - 1);
    return this.#extra - taken;
  }
}
