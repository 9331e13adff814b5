const MAX_LOOKAHEAD = 1_000;
const MAX_PER_SLOT = 16;

/**
 * How many jobs to start beyond the free slots, so that short handlers do not wait for a round trip between two jobs.
 * Grows only while full claims follow each other so closely that the jobs of the one before were done in less than a round trip,
 * and find most slots idle on their return; then a job waits here for about one round trip. Any longer handler brings it back to none.
 */
export class Lookahead {
  readonly #slots: number;
  #jobs = 0;
  /** The first claim ever proves nothing. */
  #returnedMs = Number.NEGATIVE_INFINITY;

  constructor(slots: number) {
    this.#slots = slots;
  }

  get jobs(): number {
    return this.#jobs;
  }

  /** Told after every claim: was there more work than we asked for, how many slots stood idle as it returned, and when was that? */
  observe(claim: { wasFull: boolean; idleSlots: number; waiting: number; sentMs: number; returnedMs: number }): void {
    const isClose = claim.sentMs - this.#returnedMs < claim.returnedMs - claim.sentMs;
    this.#returnedMs = claim.returnedMs;
    if (claim.waiting > 0) this.#jobs = Math.floor(this.#jobs / 2);
    else if (claim.wasFull && isClose && claim.idleSlots * 2 > this.#slots) this.#jobs = this.#grown();
    else if (!claim.wasFull) this.#jobs = 0;
  }

  #grown(): number {
    return Math.min(MAX_LOOKAHEAD, this.#slots * MAX_PER_SLOT, Math.max(this.#jobs * 2, this.#slots));
  }
}
