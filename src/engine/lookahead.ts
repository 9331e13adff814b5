const MAX_JOBS = 1_000;
/** How long a job that was leased ahead is meant to wait for a slot. */
const AHEAD_MS = 20;
/** The shortest time over which the rate of ended jobs is taken. */
const WINDOW_MS = 5;
/** After jobs waited in vain, the worker leases nothing ahead for this long. */
const COOL_DOWN_MS = 250;

/**
 * How many jobs to lease beyond the free slots, so that short handlers do not wait for a round trip between two jobs. The number follows
 * the rate at which jobs end: as many as end within `AHEAD_MS`. Where that is fewer than there are slots, a round trip is short compared
 * with the handlers, and the worker leases nothing ahead.
 */
export class Lookahead {
  readonly #slots: number;
  #jobs = 0;
  #ended = 0;
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
  ended(): void {
    this.#ended++;
  }

  /** A claim returned. `hasMore`: there was at least as much work as it asked for. */
  observe({ hasMore, nowMs }: { hasMore: boolean; nowMs: number }): void {
    const elapsedMs = nowMs - this.#sinceMs;
    if (!hasMore) this.#jobs = 0;
    else if (elapsedMs >= WINDOW_MS) this.#jobs = nowMs < this.#offUntilMs ? 0 : this.#at(this.#ended / elapsedMs);
    if (elapsedMs < WINDOW_MS) return;
    this.#ended = 0;
    this.#sinceMs = nowMs;
  }

  /** Jobs that were leased ahead found no slot in time. */
  overshot(nowMs: number): void {
    this.#jobs = 0;
    this.#offUntilMs = nowMs + COOL_DOWN_MS;
  }

  #at(jobsPerMs: number): number {
    const jobs = Math.floor(jobsPerMs * AHEAD_MS);
    return this.#slots === 0 || jobs < this.#slots ? 0 : Math.min(MAX_JOBS, jobs);
  }
}
