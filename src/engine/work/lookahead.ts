const MAX_JOBS = 1_000;
/** Longer handlers hardly wait for a round trip between two jobs. */
const SHORT_MS = 20;
/**
 * How long a job that was leased ahead should wait for a slot. Two processes on a busy machine with handlers of 5 ms, 60 000 jobs, four
 * runs each: with 20 ms the line often ran dry, at 8 900 to 12 700 jobs/s and 98 to 127 us of processor time a job; with 80 ms 15 200 to 17 000
 * and 85 to 98 us.
 */
const AHEAD_MS = 60;
/** The rate of ended jobs is measured over at least this time. */
const WINDOW_MS = 5;
/**
 * This many handlers must have ended before any job is leased ahead. Two processes with 64 slots and handlers of 5 ms: leasing ahead began
 * 150 to 290 ms after the first claim when every slot had to end a job first, and 60 to 120 ms after it with this number.
 */
const MIN_SEEN = 16;
/** After jobs found no slot in time, the worker leases none ahead for this long. */
const COOL_DOWN_MS = 250;

/**
 * Decides how many jobs to lease beyond the free slots, so that short handlers do not wait for a round trip between two
 * jobs. If handlers take longer than `SHORT_MS`, no job is leased ahead. Otherwise the worker leases as many jobs as end
 * within `AHEAD_MS`, and at least one for each slot.
 */
export class Lookahead {
  readonly #slots: number;
  #jobs = 0;
  #seen = 0;
  #ended = 0;
  #ranMs = 0;
  #sinceMs = performance.now();
  #offUntilMs = 0;

  /** With zero slots no job is ever leased ahead. */
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

  /** A claim returned. `hasMore`: there were at least as many jobs as it asked for. */
  observe({ hasMore, nowMs }: { hasMore: boolean; nowMs: number }): void {
    const elapsedMs = nowMs - this.#sinceMs;
    if (!hasMore) {
      this.#jobs = 0;
      this.#seen = 0;
    } else if (this.#ended > 0 && elapsedMs >= WINDOW_MS) this.#jobs = nowMs < this.#offUntilMs ? 0 : this.#fitting(elapsedMs);
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
    if (this.#slots === 0 || this.#seen < MIN_SEEN) return 0;
    if (this.#ranMs / this.#ended > SHORT_MS) return 0;
    const jobs = Math.floor((this.#ended / elapsedMs) * AHEAD_MS);
    return Math.min(MAX_JOBS, Math.max(this.#slots, jobs));
  }
}
