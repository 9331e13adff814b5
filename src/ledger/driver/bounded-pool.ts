import pg from 'pg';
import { AppError } from '../../core/errors.ts';

const RETRY_AFTER_MS = 1_000;
/** Short enough that a request is refused within two seconds when the database does not respond. */
const PATIENCE_MS = 1_800;
const LONGEST_WAIT_MS = 5_000;
const MAX_STANDING = 1_000;

export type PoolBounds = {
  /** How many callers may wait inside the pool. */
  maxWaiting: number;
  /** How long the other callers wait while no caller gets a connection, and the longest wait of all. */
  patienceMs?: number;
  longestWaitMs?: number;
  maxStanding?: number;
};

type Ready = (error: Error | undefined, client: pg.PoolClient | undefined, done: (release?: unknown) => void) => void;

/**
 * A pool with a short queue. When that queue is full, further callers wait outside the pool, for a bounded time and only while
 * connections become free. So callers are served as long as the database keeps up, and are refused soon if it does not.
 */
export class BoundedPool extends pg.Pool {
  readonly #bounds: Required<PoolBounds>;
  /** In order of arrival. */
  readonly #standing = new Set<Ready>();
  #movedAtMs = 0;

  constructor(config: pg.PoolConfig, bounds: PoolBounds) {
    super(config);
    const { patienceMs = PATIENCE_MS, longestWaitMs = LONGEST_WAIT_MS, maxStanding = MAX_STANDING } = bounds;
    this.#bounds = { maxWaiting: bounds.maxWaiting, patienceMs, longestWaitMs, maxStanding };
  }

  /** How many callers wait outside the pool. */
  get standingCount(): number {
    return this.#standing.size;
  }

  override connect(): Promise<pg.PoolClient>;
  override connect(ready: Ready): void;
  override connect(ready?: Ready): Promise<pg.PoolClient> | undefined {
    if (ready !== undefined) {
      this.#enter(ready);
      return undefined;
    }
    return new Promise((resolve, reject) => this.#enter((error, client) => (client === undefined ? reject(error) : resolve(client))));
  }

  #enter(ready: Ready): void {
    if (this.#standing.size === 0 && this.#hasRoom()) this.#forward(ready);
    else if (this.#standing.size < this.#bounds.maxStanding) this.#stand(ready);
    else process.nextTick(refuse, ready);
  }

  // Callers that are about to get an idle connection, or one that is being opened for them, do not count as waiting.
  #hasRoom(): boolean {
    return this.totalCount < this.options.max || this.waitingCount - this.idleCount < this.#bounds.maxWaiting;
  }

  #forward(ready: Ready): void {
    super.connect((error, client, done) => {
      if (client !== undefined) this.#movedAtMs = performance.now();
      ready(error, client, done);
      this.#moveUp();
    });
  }

  #stand(ready: Ready): void {
    let isRefused = false;
    const standing: Ready = (error, client, done) => {
      clearTimeout(timer);
      if (!isRefused) ready(error, client, done);
      else if (client !== undefined) done();
    };
    const { patienceMs, longestWaitMs } = this.#bounds;
    const sinceMs = performance.now();
    // The time also counts while the caller waits inside the pool.
    const look = () => {
      const nowMs = performance.now();
      const isMoving = nowMs - this.#movedAtMs < patienceMs;
      if (isMoving && nowMs - sinceMs < longestWaitMs) {
        timer = setTimeout(look, patienceMs);
        return;
      }
      isRefused = true;
      this.#standing.delete(standing);
      refuse(ready);
    };
    let timer = setTimeout(look, patienceMs);
    this.#standing.add(standing);
  }

  #moveUp(): void {
    for (const first of this.#standing) {
      if (!this.#hasRoom()) return;
      this.#standing.delete(first);
      this.#forward(first);
    }
  }
}

function refuse(ready: Ready): void {
  const message = 'Too many requests wait for the database.';
  ready(new AppError('UNAVAILABLE', { message, retryAfterMs: RETRY_AFTER_MS }), undefined, () => {});
}
