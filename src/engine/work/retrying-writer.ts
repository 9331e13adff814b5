import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { isOverlong, isPassing } from '../../ledger/driver/statement.ts';

/** The writer was stopped before the database accepted the write. */
export class StoppedError extends Error {
  constructor() {
    super('stopped before the database took the outcome');
    this.name = 'StoppedError';
  }
}

/** Sends rows to the ledger. `refuse` receives each row that the database does not accept. */
export type PartCallbacks<Row> = {
  send(rows: readonly Row[]): Promise<void>;
  refuse(row: Row, error: unknown): void;
};

/**
 * Writes data that must not be lost. It retries while the database is down or a lock is in the way, until it is
 * stopped, and reports every failure to `onError`.
 */
export class RetryingWriter {
  readonly #onError: (error: unknown) => void;
  readonly #sleepers = new Set<() => void>();
  #isStopped = false;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Ends all retries. Statements in flight are not cancelled. */
  stop(): void {
    this.#isStopped = true;
    for (const wake of this.#sleepers) wake();
  }

  /**
   * Retries errors that may pass and throws all others. With `isDivisible` it also throws a timeout, because the caller
   * can send fewer rows.
   */
  async write<T>(write: () => Promise<T>, { isDivisible = false } = {}): Promise<T> {
    for (let failures = 0; ; failures++) {
      if (this.#isStopped) throw new StoppedError();
      try {
        return await write();
      } catch (error) {
        this.#onError(error);
        if (!isPassing(error) || (isDivisible && isOverlong(error))) throw error;
        await this.pause(failures);
      }
    }
  }

  /**
   * Writes rows in one statement. If that fails for good or takes too long, it writes each half separately, down to the
   * single row that the database refuses.
   */
  async writeInParts<Row>(rows: readonly Row[], callbacks: PartCallbacks<Row>): Promise<void> {
    try {
      await this.write(() => callbacks.send(rows), { isDivisible: rows.length > 1 });
    } catch (error) {
      if (error instanceof StoppedError) throw error;
      const [first, ...others] = rows;
      if (first === undefined) throw error;
      if (others.length === 0) return callbacks.refuse(first, error);
      const half = rows.length >> 1;
      await this.writeInParts(rows.slice(0, half), callbacks);
      await this.writeInParts(rows.slice(half), callbacks);
    }
  }

  /**
   * Waits longer after each failure, with jitter, or until the writer is stopped. `isLong` is for failures that are
   * unlikely to pass soon.
   */
  async pause(failures: number, { isLong = false } = {}): Promise<void> {
    if (this.#isStopped) return;
    const kind = isLong ? PAUSES.databaseRefuses : PAUSES.databaseFailed;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, pauseMs(kind, failures, Math.random()));
    this.#sleepers.add(resolve);
    await promise;
    clearTimeout(timer);
    this.#sleepers.delete(resolve);
  }
}
