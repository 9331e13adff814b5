// What the main thread and the heartbeat thread tell each other, in shared memory.
export const PULSE_STOP = 0; // set by the main thread: end
export const PULSE_MAIN = 1; // counts up while the main thread lives
export const PULSE_INTERVAL = 2; // milliseconds between two beats
export const PULSE_LAST_BEAT = 3; // when the last beat that arrived was sent, as `pulseMs` tells it; 0: none did
export const PULSE_SESSION = 4; // set by the thread: its session stands for the worker
export const PULSE_WORDS = 5;

const WORD = 0x7fff_ffff;

/** Milliseconds on the machine's monotonic clock, which all threads share; of `performance.now` each has its own. Never 0. */
export const pulseMs = (): number => Number((process.hrtime.bigint() / 1_000_000n) & BigInt(WORD)) || 1;

export const pulseSince = (stampMs: number): number => (pulseMs() - stampMs) & WORD;

export type HeartbeatThreadData = {
  url: string;
  workerId: number;
  shared: SharedArrayBuffer;
  /** See `begun-leases.ts`. */
  begun: SharedArrayBuffer;
  stallMs: number;
};
