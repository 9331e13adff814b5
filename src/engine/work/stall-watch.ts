import { sinceMs } from './thread-memory.ts';

/** The event loop counts as blocked after this time. */
const STALL_MS = 1_000;
/** A longer pause between two looks means that the whole process stood still, for example in a debugger or after SIGSTOP. */
const MAX_PAUSE_MS = 1_000;

/** What a heartbeat thread has seen of the main thread's event loop. */
export class StallWatch {
  #tickMs = 0;
  #lookedMs = 0;
  #witnessedMs = 0;
  #stalledMs: number | undefined = undefined;

  /** Call it with the time of the newest tick, on the clock of `sharedClockMs`. Returns whether the event loop is blocked. */
  look(tickMs: number, nowMs = performance.now()): boolean {
    if (tickMs === this.#tickMs) this.#witnessedMs += Math.min(nowMs - this.#lookedMs, MAX_PAUSE_MS);
    else this.#witnessedMs = 0;
    this.#tickMs = tickMs;
    this.#lookedMs = nowMs;
    const silentMs = sinceMs(tickMs);
    this.#stalledMs = silentMs > STALL_MS ? silentMs : undefined;
    return this.#stalledMs !== undefined;
  }

  /** How long the event loop has been blocked; undefined while it runs. */
  get stalledMs(): number | undefined {
    return this.#stalledMs;
  }

  /** For how much of that time this thread itself was running. A process that was frozen as a whole has no blocked event loop. */
  get witnessedMs(): number {
    return this.#witnessedMs;
  }
}
