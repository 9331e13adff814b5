import type { AppError } from '../../core/errors.ts';

export type KeyTurnsOptions = {
  /** Beyond this number of waiting calls, further ones that would wait are rejected with `overflow()`. */
  maxWaiting: number;
  overflow(): AppError;
  /** A call that waited longer than this is not made: its caller gets `expired()`. */
  maxWaitMs: number;
  expired(): AppError;
};

/** Makes calls with the same key one after the other. Calls with different keys do not wait for each other. */
export class KeyTurns {
  readonly #options: KeyTurnsOptions;
  /** By key, the newest call. It never rejects. */
  readonly #last = new Map<string, Promise<unknown>>();
  #waiting = 0;

  constructor(options: KeyTurnsOptions) {
    this.#options = options;
  }

  run<T>(key: string, call: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    if (before !== undefined && this.#waiting >= this.#options.maxWaiting) return Promise.reject(this.#options.overflow());
    const result = before === undefined ? call() : this.#after(before, call);
    const ended = result.then(
      () => {},
      () => {},
    );
    this.#last.set(key, ended);
    void ended.then(() => {
      if (this.#last.get(key) === ended) this.#last.delete(key);
    });
    return result;
  }

  async #after<T>(before: Promise<unknown>, call: () => Promise<T>): Promise<T> {
    const { maxWaitMs, expired } = this.#options;
    const untilMs = performance.now() + maxWaitMs;
    this.#waiting++;
    await before;
    this.#waiting--;
    if (performance.now() > untilMs) throw expired();
    return call();
  }

  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values());
  }
}
