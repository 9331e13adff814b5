import pg from 'pg';
import { AppError } from '../core/errors.ts';

const RETRY_AFTER_MS = 1_000;

type Ready = (error: Error | undefined, client: pg.PoolClient | undefined, done: (release?: unknown) => void) => void;

/** A pool with a short line before it: whoever would stand further back is refused at once instead of waiting in vain. */
export class BoundedPool extends pg.Pool {
  readonly #maxWaiting: number;

  constructor(config: pg.PoolConfig, maxWaiting: number) {
    super(config);
    this.#maxWaiting = maxWaiting;
  }

  override connect(): Promise<pg.PoolClient>;
  override connect(ready: Ready): void;
  override connect(ready?: Ready): Promise<pg.PoolClient> | undefined {
    // Those who are about to get a connection that lies idle, or one that is opened for them, do not wait.
    const isFull = this.totalCount >= this.options.max && this.waitingCount - this.idleCount >= this.#maxWaiting;
    if (!isFull && ready === undefined) return super.connect();
    if (!isFull) super.connect(ready as Ready);
    else return refuse(ready);
    return undefined;
  }
}

function refuse(ready: Ready | undefined): Promise<never> | undefined {
  const message = 'Too many requests wait for the database.';
  const refusal = new AppError('UNAVAILABLE', { message, retryAfterMs: RETRY_AFTER_MS });
  if (ready === undefined) return Promise.reject(refusal);
  process.nextTick(ready, refusal, undefined, () => {});
  return undefined;
}
