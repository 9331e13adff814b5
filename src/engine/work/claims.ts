/**
 * The claims of this worker and how many of their jobs have not ended. A claim's row in the ledger is how a rescuer finds
 * the jobs of a dead worker, so it is closed only when the end of its last job is certain.
 */
export class Claims {
  #lastNo = 0;
  readonly #open = new Map<number, number>();
  readonly #leases = new Set<number>();
  /** Statements that were sent and not answered. */
  readonly #inFlight = new Set<number>();
  #closed: number[] = [];

  /** A claim is about to be sent. */
  next(): number {
    this.#inFlight.add(++this.#lastNo);
    return this.#lastNo;
  }

  /** The statement of a claim returned or failed. */
  answered(claimNo: number): void {
    this.#inFlight.delete(claimNo);
  }

  isInFlight(claimNo: number): boolean {
    return this.#inFlight.has(claimNo);
  }

  open(claimNo: number, jobs: readonly { leaseSeq: number }[]): void {
    this.#open.set(claimNo, jobs.length);
    for (const { leaseSeq } of jobs) this.#leases.add(leaseSeq);
  }

  /** Whether this worker knows of the lease and is not done with it. */
  holds(leaseSeq: number): boolean {
    return this.#leases.has(leaseSeq);
  }

  /** One job of the claim ended for certain. */
  done(claimNo: number, leaseSeq: number): void {
    if (!this.#leases.delete(leaseSeq)) return;
    const left = (this.#open.get(claimNo) ?? 1) - 1;
    if (left > 0) {
      this.#open.set(claimNo, left);
      return;
    }
    this.#open.delete(claimNo);
    this.#closed.push(claimNo);
  }

  takeClosed(): number[] {
    const closed = this.#closed;
    this.#closed = [];
    return closed;
  }

  /** They were sent, but nobody knows whether they arrived. Closing twice does no harm. */
  reopen(claimNos: readonly number[]): void {
    this.#closed.push(...claimNos);
  }
}
