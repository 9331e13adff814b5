import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { isOverlong, isPassing } from '../../ledger/driver/statement.ts';

/** The writer was told to stop before the database took what it had. */
export class StoppedError extends Error {
  constructor() {
    super('stopped before the database took the outcome');
    this.name = 'StoppedError';
  }
}

/** Sends rows to the ledger, and is told which of them the database will not have. */
export type PartsWriter<Row> = {
  send(rows: readonly Row[]): Promise<void>;
  refuse(row: Row, error: unknown): void;
};

/**
 * Writes what must not be lost: again and again while the database is away or others are in the way, until it is stopped. Every
 * failure is told to `onError`.
 */
export class Persister {
  readonly #onError: (error: unknown) => void;
  readonly #sleepers = new Set<() => void>();
  #isStopped = false;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** What is under way ends by itself; nothing is tried again. */
  stop(): void {
    this.#isStopped = true;
    for (const wake of this.#sleepers) wake();
  }

  /** Repeats what may pass. Anything else is thrown, also that it takes too long where less at a time can be sent. */
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
   * Writes rows in one statement, or in halves where that fails for good or takes too long: in the end a row that the database
   * refuses stands alone, and takes no other with it.
   */
  async writeInParts<Row>(rows: readonly Row[], writer: PartsWriter<Row>): Promise<void> {
    try {
      await this.write(() => writer.send(rows), { isDivisible: rows.length > 1 });
    } catch (error) {
      if (error instanceof StoppedError) throw error;
      const [first, ...others] = rows;
      if (first === undefined) throw error;
      if (others.length === 0) return writer.refuse(first, error);
      const half = rows.length >> 1;
      await this.writeInParts(rows.slice(0, half), writer);
      await this.writeInParts(rows.slice(half), writer);
    }
  }

  /** Longer with every failure, at random, and over when it is stopped. `isLong`: for what nobody expects to pass soon. */
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
