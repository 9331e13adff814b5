// The memory that the main thread shares with the heartbeat thread.

/** The words of the array that both threads read with Atomics. */
export const WORD = {
  /** 1 when the thread is to end. Both threads wait for changes on this word. */
  stop: 0,
  /** When the main thread last ran its event loop, on the clock of `sharedClockMs`. */
  mainTickMs: 1,
  /** Milliseconds between two beats. */
  intervalMs: 2,
  /** When the last beat that arrived was sent, on the clock of `sharedClockMs`; 0 before the first one. */
  lastBeatMs: 3,
  /** 1 when the thread's session holds the worker's lock. */
  hasSession: 4,
  /** 1 when a debugger may have paused the main thread. */
  isDebugged: 5,
} as const;

export const WORDS_BYTES = Object.keys(WORD).length * Int32Array.BYTES_PER_ELEMENT;

const MAX_WORD = 0x7fff_ffff;

/** Milliseconds on the machine's monotonic clock. All threads share it, unlike `performance.now`. Never 0. */
export const sharedClockMs = (): number => Number((process.hrtime.bigint() / 1_000_000n) & BigInt(MAX_WORD)) || 1;

/** Stays right when the clock of 31 bits wraps around. */
export const sinceMs = (stampMs: number): number => (sharedClockMs() - stampMs) & MAX_WORD;

export type HeartbeatThreadData = {
  url: string;
  workerId: number;
  words: SharedArrayBuffer;
  lateStartLeases: SharedArrayBuffer;
  processMemory: SharedArrayBuffer;
  /** Whether the thread may end the process when its event loop stays blocked. */
  mayEndProcess: boolean;
};

/** The places in the memory that all heartbeat threads of a process share, because its workers share one event loop. */
export const PLACE = {
  /** The lease of the handler that was called last and has not yet returned control; 0 if there is none. */
  calledLease: 0,
  /** How long that handler may run. */
  calledLimitMs: 1,
  /** 1 when a thread has given up the process. The event loop sets it to 0 whenever it runs. */
  isGivenUp: 2,
  /** 1 if the log of the process consists of JSON lines. */
  logsJson: 3,
} as const;

/** Belongs to the thread that runs handlers. A heartbeat thread receives it in its data. */
export const processMemory = new SharedArrayBuffer(Object.keys(PLACE).length * Float64Array.BYTES_PER_ELEMENT);
const places = new Float64Array(processMemory);

/** A thread that ends the process then says so in a line of the same form. */
export function reportAsJson(): void {
  places[PLACE.logsJson] = 1;
}

export function withdrawGiveUp(): void {
  places[PLACE.isGivenUp] = 0;
}

/** Shows the heartbeat threads which handler is about to run, in case it blocks the event loop. What runs after an `await` is not seen. */
export function enterHandler(leaseSeq: number, limitMs: number): void {
  places[PLACE.calledLimitMs] = limitMs;
  places[PLACE.calledLease] = leaseSeq;
}

export function leaveHandler(): void {
  places[PLACE.calledLease] = 0;
}

/**
 * The leases of jobs whose handler was called although the start of the attempt is not written yet. While the main thread is blocked, the
 * heartbeat thread writes these starts. Without a written start, the timeout of the attempt would not take effect.
 */
export class LateStartLeases {
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

/** Called by the heartbeat thread. */
export const lateStartLeasesIn = (shared: SharedArrayBuffer): Set<number> =>
  new Set(new Float64Array(shared).filter((leaseSeq) => leaseSeq !== 0));
