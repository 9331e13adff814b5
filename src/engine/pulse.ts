// What the main thread and the heartbeat thread tell each other, in shared memory.
export const PULSE_STOP = 0; // set by the main thread: end
export const PULSE_MAIN = 1; // counts up while the main thread lives
export const PULSE_INTERVAL = 2; // milliseconds between two beats
export const PULSE_LAST_BEAT = 3; // when the last beat that arrived was sent: low 31 bits of Date.now()
export const PULSE_WORDS = 4;

export type HeartbeatThreadData = { url: string; workerId: number; shared: SharedArrayBuffer; stallMs: number };
