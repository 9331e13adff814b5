const FIRST_MS = 1_000;
const LONGEST_MS = 300_000;
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
    const delayMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 20));
    this.#entries.delete(name);
    this.#entries.set(name, { failures, untilMs: this.#nowMs() + delayMs * (0.5 + Math.random() / 2) });
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > MOST && oldest !== undefined) this.#entries.delete(oldest);
  }

  delete(name: string): void {
    this.#entries.delete(name);
  }
}
