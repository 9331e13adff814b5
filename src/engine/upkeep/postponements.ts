import { PAUSES, pauseMs } from '../../core/backoff.ts';

const MOST = 10_000;

/** What failed and is not to be tried again yet: after a second at first, then after twice as long, at most five minutes. */
export class Postponements {
  readonly #entries = new Map<string, { failures: number; untilMs: number }>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  has(name: string): boolean {
    return this.#nowMs() < (this.#entries.get(name)?.untilMs ?? 0);
  }

  /** Beyond ten thousand names the oldest is forgotten, and is tried sooner than it should be. */
  add(name: string): void {
    const failures = (this.#entries.get(name)?.failures ?? 0) + 1;
    const delayMs = pauseMs(PAUSES.itemFailed, failures - 1, Math.random());
    this.#entries.delete(name);
    this.#entries.set(name, { failures, untilMs: this.#nowMs() + delayMs });
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > MOST && oldest !== undefined) this.#entries.delete(oldest);
  }

  delete(name: string): void {
    this.#entries.delete(name);
  }
}
