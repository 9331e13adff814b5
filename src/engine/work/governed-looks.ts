import type { Claimed } from '../../ledger/attempts/claim-and-start.ts';
import type { Which } from './ready-ranges.ts';

/** A claim within caps and rates of queues takes a transaction, so such claims leave others this much time in between. */
const BETWEEN_LOOKS_MS = 25;
/** A job of another process may have ended, and its queue has room again. */
const FULL_MS = 100;

export type ObservedLook = Pick<Claimed, 'jobs' | 'queueRoom'> & { limit: number; nowMs: number };

/**
 * Decides when a claim also looks into governed queues: those with a cap or a rate. Other claims leave these queues out, and cost what they
 * cost without them. While jobs of governed queues are found, every claim looks, so that priorities hold over all queues.
 */
export class GovernedLooks {
  readonly #wake: () => void;
  #governed: ReadonlySet<string> = new Set();
  #nextMs = 0;
  #timer: { handle: NodeJS.Timeout; atMs: number } | null = null;

  /** `wake`: a claim may find jobs of governed queues. */
  constructor(wake: () => void) {
    this.#wake = wake;
  }

  set(queues: readonly string[], governed: ReadonlySet<string>): void {
    this.#governed = new Set(queues.filter((queue) => governed.has(queue)));
    this.#nextMs = 0;
  }

  /** Whether the next claim looks into governed queues. */
  isDue(nowMs: number): boolean {
    return this.#governed.size > 0 && nowMs >= this.#nextMs;
  }

  /** Returns whether a claim that is about to be sent looks into governed queues. If not, another one will soon. */
  begins(nowMs: number, { isUnderCaps }: { isUnderCaps: boolean }): boolean {
    if (this.#governed.size === 0) return false;
    // Claims under other caps take a transaction anyway.
    const looks = isUnderCaps || this.isDue(nowMs);
    if (!looks) this.#wakeAfter(this.#nextMs - nowMs, nowMs);
    return looks;
  }

  /** The governed queues among those that a claim looks into. */
  among(which: Which | undefined): ReadonlySet<string> {
    if (typeof which !== 'object') return this.#governed;
    return new Set(this.#governed.has(which.queue) ? [which.queue] : []);
  }

  /** A job of the queue has ended. Returns whether another one may start. */
  ended(queue: string): boolean {
    if (this.#governed.size === 0 || !this.#governed.has(queue)) return false;
    this.#nextMs = 0;
    return true;
  }

  observe({ jobs, queueRoom, limit, nowMs }: ObservedLook): void {
    if (queueRoom === undefined) return;
    const { isFull, waitMs } = queueRoom;
    const found = jobs.some(({ queue }) => this.#governed.has(queue));
    this.#nextMs = found && jobs.length === limit ? 0 : nowMs + BETWEEN_LOOKS_MS;
    if (waitMs !== null) this.#wakeAfter(waitMs + 1, nowMs);
    if (isFull) this.#wakeAfter(FULL_MS, nowMs);
    if (found) this.#wakeAfter(BETWEEN_LOOKS_MS, nowMs);
  }

  /** Of several wake-ups, the earliest counts. Each look orders the next. */
  #wakeAfter(delayMs: number, nowMs: number): void {
    const atMs = nowMs + Math.max(1, delayMs);
    if (this.#timer !== null && this.#timer.atMs <= atMs) return;
    if (this.#timer !== null) clearTimeout(this.#timer.handle);
    const handle = setTimeout(() => {
      this.#timer = null;
      this.#nextMs = 0;
      this.#wake();
    }, atMs - nowMs).unref();
    this.#timer = { handle, atMs };
  }
}
