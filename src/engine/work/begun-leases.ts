/**
 * The leases whose handlers were called before their start was written, in memory that the heartbeat thread shares. While the main thread
 * is blocked, the thread writes these starts, so that such handlers have a timeout like all others.
 */
export class BegunLeases {
  /** One number for each slot; zero where it is free. */
  readonly shared: SharedArrayBuffer;
  readonly #leases: Float64Array;
  readonly #places = new Map<number, number>();
  readonly #free: number[];

  constructor(slots: number) {
    this.shared = new SharedArrayBuffer(slots * Float64Array.BYTES_PER_ELEMENT);
    this.#leases = new Float64Array(this.shared);
    this.#free = Array.from({ length: slots }, (_, place) => place);
  }

  add(leaseSeq: number): void {
    const place = this.#free.pop();
    if (place === undefined) return;
    this.#places.set(leaseSeq, place);
    this.#leases[place] = leaseSeq;
  }

  delete(leaseSeq: number): void {
    const place = this.#places.get(leaseSeq);
    if (place === undefined) return;
    this.#places.delete(leaseSeq);
    this.#leases[place] = 0;
    this.#free.push(place);
  }
}

/** For the other thread. */
export const begunLeasesIn = (shared: SharedArrayBuffer): Set<number> =>
  new Set(new Float64Array(shared).filter((leaseSeq) => leaseSeq !== 0));
