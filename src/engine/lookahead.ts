const MAX_JOBS = 1_000;
/** How long a job that was claimed ahead is meant to wait for a slot. */
const AHEAD_MS = 20;
/** The shortest time over which the rate of ended jobs is taken. */
const WINDOW_MS = 5;
/** After jobs waited in vain, nothing is claimed ahead for this long. */
const COOL_DOWN_MS = 1_000;

/**
 * How many jobs to claim beyond the free slots, so that short handlers do not wait for a round trip between two jobs. What is claimed
 * ahead is leased and not started. The number follows the rate at which jobs end: as many as end within `AHEAD_MS`, and none where
 * that is fewer than there are slots, because then a round trip is short beside the handlers.
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

  /** A claim returned. `wasFull`: there was at least as much work as it asked for. */
  observe({ wasFull, nowMs }: { wasFull: boolean; nowMs: number }): void {
    const elapsedMs = nowMs - this.#sinceMs;
    if (!wasFull) this.#jobs = 0;
    else if (elapsedMs >= WINDOW_MS) this.#jobs = nowMs < this.#offUntilMs ? 0 : this.#at(this.#ended / elapsedMs);
    if (elapsedMs < WINDOW_MS) return;
    this.#ended = 0;
    this.#sinceMs = nowMs;
  }

  /** Jobs that were claimed ahead found no slot in time. */
  overshot(nowMs: number): void {
    this.#jobs = 0;
    this.#offUntilMs = nowMs + COOL_DOWN_MS;
  }

  #at(jobsPerMs: number): number {
    const jobs = Math.floor(jobsPerMs * AHEAD_MS);
    return this.#slots === 0 || jobs < this.#slots ? 0 : Math.min(MAX_JOBS, jobs);
  }
}
