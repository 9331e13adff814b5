const MAX_JOBS = 1_000;
/** How long a job that was leased ahead is meant to wait for a slot. */
const AHEAD_MS = 20;
/** The shortest time over which the rate of ended jobs is taken. */
const WINDOW_MS = 5;
/** So many handlers, and one for each slot, must have been short before anything is leased ahead. */
const MIN_SEEN = 16;
/** After jobs waited in vain, the worker leases nothing ahead for this long. */
const COOL_DOWN_MS = 250;

/**
 * How many jobs to lease beyond the free slots, so that short handlers do not wait for a round trip between two jobs. Where handlers take longer
 * than `AHEAD_MS`, a round trip is short compared with them, and the worker leases nothing ahead. Otherwise it leases as many as end within that
 * time, and at least one for each slot.
 */
export class Lookahead {
  readonly #slots: number;
  #jobs = 0;
  #seen = 0;
  #ended = 0;
  #ranMs = 0;
  #sinceMs = performance.now();
  #offUntilMs = 0;

  /** Without slots it stays at zero. */
  constructor(slots: number) {
    this.#slots = slots;
  }

  get jobs(): number {
    return this.#jobs;
  }

  /** A handler returned. */
  ended(ranMs: number): void {
    this.#seen++;
    this.#ended++;
    this.#ranMs += ranMs;
  }

  /** A claim returned. `hasMore`: there was at least as much work as it asked for. */
  observe({ hasMore, nowMs }: { hasMore: boolean; nowMs: number }): void {
    const elapsedMs = nowMs - this.#sinceMs;
    if (!hasMore) {
      this.#jobs = 0;
      this.#seen = 0;
    } else if (this.#ended > 0 && elapsedMs >= WINDOW_MS)
      this.#jobs = nowMs < this.#offUntilMs ? 0 : this.#fitting(elapsedMs);
    if (elapsedMs < WINDOW_MS) return;
    this.#ended = 0;
    this.#ranMs = 0;
    this.#sinceMs = nowMs;
  }

  /** Jobs that were leased ahead found no slot in time. */
  overshot(nowMs: number): void {
    this.#jobs = 0;
    this.#offUntilMs = nowMs + COOL_DOWN_MS;
  }

  #fitting(elapsedMs: number): number {
    if (this.#slots === 0 || this.#seen < Math.max(MIN_SEEN, this.#slots)) return 0;
    if (this.#ranMs / this.#ended > AHEAD_MS) return 0;
    const jobs = Math.floor((this.#ended / elapsedMs) * AHEAD_MS);
    return Math.min(MAX_JOBS, Math.max(this.#slots, jobs));
  }
}
