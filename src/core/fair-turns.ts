import type { AppError } from './errors.ts';
import { type SharedLimit, SharedUse } from './fair-share.ts';

export type FairTurnsOptions = SharedLimit & {
  /** The most places of one holder, whatever its share. */
  readonly perHolder?: number;
  /** How many callers of one holder may wait. */
  readonly maxWaiting: number;
  overflow(holder: string): AppError;
};

type Waiter = { readonly start: () => void };

/** Limits how much work runs at the same time. Holders get free places in turns, so that one with many waiters delays no other. */
export class FairTurns {
  readonly #options: FairTurnsOptions;
  readonly #running: SharedUse;
  /** The holder that has waited longest since its last turn comes first. */
  readonly #waiting = new Map<string, Set<Waiter>>();

  constructor(options: FairTurnsOptions) {
    this.#options = options;
    this.#running = new SharedUse(options);
  }

  /** Runs the work when it is the holder's turn. Rejects with the reason of the signal if that is aborted before. */
  async run<T>(holder: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#hasPlace(holder) && !this.#waiting.has(holder)) this.#running.add(holder, 1);
    else await this.#wait(holder, signal);
    try {
      return await work();
    } finally {
      this.#running.add(holder, -1);
      this.#next();
    }
  }

  #hasPlace(holder: string): boolean {
    const { limit, perHolder = limit } = this.#options;
    return this.#running.all < limit && this.#running.own(holder) < perHolder && this.#running.room(holder) >= 1;
  }

  #wait(holder: string, signal?: AbortSignal): Promise<void> {
    const waiters = this.#waiting.get(holder) ?? new Set();
    if (waiters.size >= this.#options.maxWaiting) return Promise.reject(this.#options.overflow(holder));
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        waiters.delete(waiter);
        if (waiters.size === 0) this.#waiting.delete(holder);
        reject(signal?.reason);
      };
      const waiter: Waiter = {
        start: () => {
          signal?.removeEventListener('abort', onAbort);
          resolve();
        },
      };
      waiters.add(waiter);
      this.#waiting.set(holder, waiters);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  #next(): void {
    for (const [holder, waiters] of this.#waiting) {
      if (!this.#hasPlace(holder)) continue;
      const [first] = waiters;
      waiters.delete(first as Waiter);
      this.#waiting.delete(holder);
      // The holder goes behind the others, and the loop comes to it again.
      if (waiters.size > 0) this.#waiting.set(holder, waiters);
      this.#running.add(holder, 1);
      first?.start();
    }
  }
}
