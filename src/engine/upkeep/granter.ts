import type { Database } from '../../ledger/driver/database.ts';
import { grantLimited, type LookedAt, waitingLimits } from '../../ledger/upkeep/grant-limited.ts';
import type { EventHub } from '../events.ts';
import { LoopService } from '../loop.ts';

/** The limits of one statement, which holds their rows until it ends. */
const LIMITS_AT_ONCE = 500;
/** The grants of one statement, shared by its limits. */
const GRANTS_AT_ONCE = 2_000;
const SWEEP_EVERY_MS = 1_000;
/** The least time between two sweeps, if jobs became ready in this process. */
const SWEEP_SOON_MS = 100;
/** A sweep over very many limits rests after each page for so many times as long as the page took. */
const REST_FACTOR = 4;
/** Another process gives grants of the limit, or another transaction holds its first jobs. */
const HELD_MS = 5;
const BLOCKED_MS = 50;
/** Limits that are remembered for a time. The sweep finds others. */
const MAX_REMEMBERED = 20_000;

export type GranterParams = { database: Database; events: EventHub; onGranted(): void };

/**
 * Lets jobs with a limit start when there is room (decision 0048). It looks at a limit at once when a job of this process ends or is
 * submitted, and when a slot of a rate becomes free. A sweep over all limits with waiting jobs finds the rest.
 */
export class Granter extends LoopService {
  readonly #params: GranterParams;
  readonly #asked = new Set<number>();
  /** When to look at a limit again. */
  readonly #due = new Map<number, number>();
  #sweepAtMs = 0;
  #sweptMs = 0;
  #after = 0;
  /** Whether the last sweep found a limit. Without limits, jobs that become ready cause no sweep. */
  #hasSeenLimits = false;

  constructor(params: GranterParams) {
    super({ name: 'granter', events: params.events });
    this.#params = params;
  }

  /** Looks at these limits now. */
  wakeFor(limitIds: Iterable<number>): void {
    for (const id of limitIds) if (this.#asked.size < MAX_REMEMBERED) this.#asked.add(id);
    this.wake();
  }

  /** Jobs became ready in this process, and some of them may have limits. */
  sweepSoon(): void {
    if (!this.#hasSeenLimits) return;
    this.#sweepAtMs = Math.min(this.#sweepAtMs, Math.max(performance.now(), this.#sweptMs + SWEEP_SOON_MS));
    this.wake();
  }

  async round(): Promise<number> {
    const { database, onGranted } = this.#params;
    const startMs = performance.now();
    for (const [id, dueMs] of this.#due) if (dueMs <= startMs) this.#ask(id);
    const isSweeping = this.#sweepAtMs <= startMs;
    if (isSweeping) await this.#findWaiting();
    const ids = [...this.#asked].slice(0, LIMITS_AT_ONCE);
    if (ids.length > 0) {
      for (const id of ids) this.#asked.delete(id);
      const most = Math.max(1, Math.floor(GRANTS_AT_ONCE / ids.length));
      const looked = await grantLimited(database.workers, ids, most);
      this.#remember(looked);
      if (looked.some(({ granted }) => granted > 0)) onGranted();
    }
    const nowMs = performance.now();
    if (isSweeping && this.#after > 0) this.#sweepAtMs = nowMs + REST_FACTOR * (nowMs - startMs);
    if (this.#asked.size > 0) return 0;
    let nextMs = this.#sweepAtMs;
    for (const dueMs of this.#due.values()) if (dueMs < nextMs) nextMs = dueMs;
    return Math.max(0, nextMs - nowMs);
  }

  #ask(id: number): void {
    this.#due.delete(id);
    this.#asked.add(id);
  }

  /** One page of the sweep. */
  async #findWaiting(): Promise<void> {
    const found = await waitingLimits(this.#params.database.workers, this.#after, LIMITS_AT_ONCE);
    if (this.#after === 0) this.#hasSeenLimits = found.length > 0;
    for (const id of found) this.#asked.add(id);
    this.#after = found.length < LIMITS_AT_ONCE ? 0 : (found.at(-1) ?? 0);
    this.#sweptMs = performance.now();
    if (this.#after === 0) this.#sweepAtMs = this.#sweptMs + SWEEP_EVERY_MS;
  }

  #remember(looked: readonly LookedAt[]): void {
    const nowMs = performance.now();
    for (const { limitId, granted, isHeld, hasMore, nextInMs } of looked) {
      if (granted > 0) this.#hasSeenLimits = true;
      if (isHeld) this.#lookAgain(limitId, nowMs + HELD_MS);
      else if (hasMore && granted > 0) this.#asked.add(limitId);
      else if (hasMore) this.#lookAgain(limitId, nowMs + BLOCKED_MS);
      else if (nextInMs !== null) this.#lookAgain(limitId, nowMs + nextInMs);
    }
  }

  #lookAgain(limitId: number, atMs: number): void {
    if (this.#due.size < MAX_REMEMBERED || this.#due.has(limitId)) this.#due.set(limitId, atMs);
  }
}
