import { type Pause, pauseMs } from '../../core/backoff.ts';

const MAX_KEYS = 10_000;

/** Keeps work that failed from being retried too soon: each failure in a row makes the delay longer. */
export class FailureDelays<Key> {
  readonly #pause: Pause;
  readonly #nowMs: () => number;
  readonly #entries = new Map<Key, { failures: number; untilMs: number }>();

  constructor(pause: Pause, nowMs: () => number = () => performance.now()) {
    this.#pause = pause;
    this.#nowMs = nowMs;
  }

  isWaiting(key: Key): boolean {
    return this.#nowMs() < (this.#entries.get(key)?.untilMs ?? 0);
  }

  /** Beyond ten thousand keys the oldest is forgotten, and its work is retried sooner. */
  failed(key: Key): void {
    const failures = (this.#entries.get(key)?.failures ?? 0) + 1;
    const delayMs = pauseMs(this.#pause, failures - 1, Math.random());
    this.#entries.delete(key);
    this.#entries.set(key, { failures, untilMs: this.#nowMs() + delayMs });
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > MAX_KEYS && oldest !== undefined) this.#entries.delete(oldest);
  }

  succeeded(key: Key): void {
    this.#entries.delete(key);
  }
}
