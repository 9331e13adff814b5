const SECOND_MS = 1_000;

/** Admits so many lines of each kind in a second. At the end of the second it reports how many more there were. */
export class FloodLimit {
  readonly #most: number;
  readonly #report: (kind: string, dropped: number) => void;
  readonly #seen = new Map<string, number>();
  #endsAtMs = 0;
  #timer: NodeJS.Timeout | null = null;

  /** Zero means no limit. */
  constructor(most: number, report: (kind: string, dropped: number) => void) {
    this.#most = most;
    this.#report = report;
  }

  admits(kind: string): boolean {
    if (this.#most === 0) return true;
    const nowMs = performance.now();
    if (nowMs >= this.#endsAtMs) {
      this.#close();
      this.#endsAtMs = nowMs + SECOND_MS;
    }
    const seen = (this.#seen.get(kind) ?? 0) + 1;
    this.#seen.set(kind, seen);
    if (seen <= this.#most) return true;
    // The process may end before the next line. Then the timer does not keep it alive, and the report is lost.
    this.#timer ??= setTimeout(() => this.#close(), Math.max(0, this.#endsAtMs - nowMs)).unref();
    return false;
  }

  #close(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const over = [...this.#seen].filter(([, seen]) => seen > this.#most);
    this.#seen.clear();
    for (const [kind, seen] of over) this.#report(kind, seen - this.#most);
  }
}
