const MAX_LOOKAHEAD = 500;
const MAX_PER_SLOT = 8;

/**
 * How many jobs to start beyond the free slots, so that short handlers do not wait for a round trip between two jobs.
 * Grows only while a full claim finds most slots idle on its return, which happens when handlers are shorter than a round
 * trip; then a job waits here for about one round trip. Any longer handler brings it back to none.
 */
export class Lookahead {
  readonly #slots: number;
  #jobs = 0;

  constructor(slots: number) {
    this.#slots = slots;
  }

  get jobs(): number {
    return this.#jobs;
  }

  /** Told after every claim: was there more work than we asked for, and how many slots stood idle as it returned? */
  observe(claim: { wasFull: boolean; idleSlots: number; waiting: number }): void {
    if (claim.waiting > 0) this.#jobs = Math.floor(this.#jobs / 2);
    else if (claim.wasFull && claim.idleSlots * 2 > this.#slots) this.#jobs = this.#grown();
    else if (!claim.wasFull) this.#jobs = 0;
  }

  #grown(): number {
    return Math.min(MAX_LOOKAHEAD, this.#slots * MAX_PER_SLOT, Math.max(this.#jobs * 2, this.#slots));
  }
}
