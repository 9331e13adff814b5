/** Outcomes occupy slots if none was written for this long, or if more than this many wait. */
const STALLED_MS = 100;
const MAX_UNWRITTEN = 1_000;

export type Unwritten = {
  /** Outcomes that the ledger has not confirmed. */
  outcomes: number;
  /** Of these, outcomes of jobs that another transaction has locked. */
  held: number;
};

/**
 * How many slots outcomes occupy because they cannot be written. Outcomes in flight occupy none, so a slot is free as
 * soon as its handler returns. Without this bound, a worker of 10 slots kept 60 000 outcomes while one lock was in
 * their way.
 */
export class OutcomeBacklog {
  readonly #unwritten: () => Unwritten;
  #lastWriteMs = 0;

  constructor(unwritten: () => Unwritten) {
    this.#unwritten = unwritten;
  }

  /** Call it before an outcome is added. */
  added(): void {
    if (this.#unwritten().outcomes === 0) this.#lastWriteMs = performance.now();
  }

  written(): void {
    this.#lastWriteMs = performance.now();
  }

  get slots(): number {
    const { outcomes, held } = this.#unwritten();
    if (outcomes === 0) return 0;
    if (performance.now() - this.#lastWriteMs > STALLED_MS) return outcomes;
    return Math.max(held, outcomes - MAX_UNWRITTEN);
  }
}
