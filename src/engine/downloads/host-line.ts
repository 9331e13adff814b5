import { type HostEntry, type HostLater, type HostLimits, type HostOutcome, isThrottling } from '../../core/ingest/host-gate.ts';
import type { PlaceAnswer, PlaceRequest } from '../../ledger/downloads/host-places.ts';
import { added, counted, NOTHING } from './host-counts.ts';
import { OrgQueue } from './org-queue.ts';

/** How long the first task of an org waits here, and how long its others do. Each of them occupies a slot of the worker. */
const PATIENCE_MS = { first: 5_000, others: 300 };
/** How long a place is kept for the next task after the last one has left. */
const KEEP_MS = 200;
/** How long a process hands a place from task to task while other processes wait. */
const TURN_MS = 1_000;
const POLL_MS = { first: 40, max: 250 };
const AFTER_ERROR_MS = 500;
/** Starts are reserved for this part of a second at once. */
const RESERVED_SHARE = 0.25;
/** A pause by an operator has no end that is known. */
const PAUSED_MS = 10_000;

/** A place that a task has. A signal for each would cost more than the place. */
type Held = { isLost: boolean; listener: (() => void) | null };

type Waiter = { readonly orgId: string; readonly end: (result: HostEntry | HostLater) => void };

export type HostLineOptions = {
  readonly host: string;
  readonly limits: HostLimits;
  /** Rejects while the process has no session. */
  ask(request: Omit<PlaceRequest, 'gateId' | keyof HostLimits>): Promise<PlaceAnswer>;
  /** When a task that finds the host full should come back. */
  laterMs(orgId: string, spacingMs: number): number;
};

/** The places of this process at one host, and the tasks that wait for them. */
export class HostLine {
  readonly #options: HostLineOptions;
  readonly #inUse = new Set<Held>();
  readonly #waiters = new OrgQueue<Waiter>();
  #held = 0;
  #othersWait = false;
  #turnStartedMs = 0;
  #isYielding = false;
  #closedUntilMs = 0;
  #isPaused = false;
  #startsLeft = 0;
  #nextStartMs = 0;
  #keepUntilMs = 0;
  #counts = NOTHING;
  #askedMs = 0;
  #isAsking = false;
  #pollMs = POLL_MS.first;
  #timer: NodeJS.Timeout | null = null;
  #timerAtMs = 0;
  /** How long a request takes, smoothed. */
  #holdMs = 200;

  constructor(options: HostLineOptions) {
    this.#options = options;
  }

  get isIdle(): boolean {
    return this.#held + this.#inUse.size + this.#waiters.size === 0 && this.#counts === NOTHING && !this.#isAsking;
  }

  enter(orgId: string, signal: AbortSignal): Promise<HostEntry | HostLater> {
    const closedMs = this.#closedUntilMs - performance.now();
    if (closedMs > 0) return Promise.resolve(this.#laterAfter(this.#isPaused ? PAUSED_MS : closedMs));
    if (!signal.aborted && this.#mayEnterNow()) return Promise.resolve(this.#entry());
    const patienceMs = this.#waiters.has(orgId) ? PATIENCE_MS.others : PATIENCE_MS.first;
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        if (this.#waiters.remove(waiter)) clearTimeout(timer);
        reject(signal.reason);
      };
      const waiter: Waiter = {
        orgId,
        end: (result) => {
          clearTimeout(timer);
          signal.removeEventListener('abort', onAbort);
          resolve(result);
        },
      };
      const timer = setTimeout(() => {
        if (this.#waiters.remove(waiter)) waiter.end(this.#full(orgId));
      }, patienceMs);
      if (signal.aborted) return onAbort();
      signal.addEventListener('abort', onAbort, { once: true });
      this.#waiters.add(waiter);
      this.#settle();
    });
  }

  /** Learns about pauses and about other processes that wait, and writes the counts. */
  refresh(olderThanMs: number): void {
    if (!this.isIdle && performance.now() - this.#askedMs >= olderThanMs) this.#ask();
  }

  /** The places belong to others now. */
  lose(): void {
    this.#held = 0;
    this.#startsLeft = 0;
    const lost = [...this.#inUse];
    this.#inUse.clear();
    for (const place of lost) {
      place.isLost = true;
      place.listener?.();
    }
  }

  close(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    for (const waiter of this.#waiters.takeAll()) waiter.end({ kind: 'later', retryAfterMs: 1_000 });
  }

  #mayEnterNow(): boolean {
    const isFree = this.#waiters.size === 0 && !this.#isAsking && !this.#isYielding && this.#held > this.#inUse.size;
    return isFree && this.#startDelayMs() === 0;
  }

  /** Lets waiters in while there are places, and asks for what is missing. Not while it asks: the answer may take idle places away. */
  #settle(): void {
    if (this.#isAsking) return;
    while (this.#waiters.size > 0 && this.#held > this.#inUse.size && !this.#isYielding) {
      const waitMs = this.#startDelayMs();
      if (waitMs !== 0) {
        if (waitMs === null) this.#ask();
        else this.#later(waitMs);
        return;
      }
      (this.#waiters.take() as Waiter).end(this.#entry());
    }
    if (this.#waiters.size === 0) return;
    const dueMs = this.#askedMs + this.#pollMs - performance.now();
    if (dueMs > 0) this.#later(dueMs);
    else this.#ask();
  }

  /** How long until a start is allowed, or null if none is reserved. A start that comes late by more than one interval is lost. */
  #startDelayMs(): number | null {
    const { rate } = this.#options.limits;
    if (rate === null) return 0;
    const everyMs = 1_000 / rate;
    const missed = Math.min(this.#startsLeft, Math.max(0, Math.floor((performance.now() - this.#nextStartMs) / everyMs)));
    this.#startsLeft -= missed;
    this.#nextStartMs += missed * everyMs;
    if (this.#startsLeft === 0) return null;
    const waitMs = this.#nextStartMs - performance.now();
    if (waitMs > 0) return waitMs;
    this.#startsLeft--;
    this.#nextStartMs += everyMs;
    return 0;
  }

  #entry(): HostEntry {
    const place: Held = { isLost: false, listener: null };
    const enteredMs = performance.now();
    this.#inUse.add(place);
    let hasLeft = false;
    return {
      kind: 'entered',
      get isLost() {
        return place.isLost;
      },
      onLost: (listener) => {
        place.listener = listener;
      },
      note: (outcome) => this.#count(outcome),
      leave: (outcome) => {
        if (hasLeft) return;
        hasLeft = true;
        this.#holdMs += (performance.now() - enteredMs - this.#holdMs) / 8;
        this.#inUse.delete(place);
        this.#count(outcome);
        this.#afterLeave();
      },
    };
  }

  #count(outcome: HostOutcome): void {
    this.#counts = counted(this.#counts, outcome);
    // No other task starts before the ledger has said how long the pause is.
    if (!isThrottling(outcome)) return;
    this.#isYielding = true;
    this.#ask();
  }

  #afterLeave(): void {
    const nowMs = performance.now();
    if (this.#othersWait && nowMs - this.#turnStartedMs > TURN_MS) this.#isYielding = true;
    if (this.#isYielding) this.#ask();
    else if (this.#waiters.size > 0) this.#settle();
    else {
      this.#keepUntilMs = nowMs + KEEP_MS;
      this.#later(KEEP_MS);
    }
  }

  /** The sooner one of two timers stays. */
  #later(ms: number): void {
    const atMs = performance.now() + ms;
    if (this.#timer !== null && this.#timerAtMs <= atMs) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timerAtMs = atMs;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      if (this.#waiters.size > 0 && this.#held > this.#inUse.size) this.#settle();
      else if (this.#waiters.size > 0 || this.#held > this.#inUse.size || this.#isYielding) this.#ask();
    }, ms);
  }

  #ask(): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const counts = this.#counts;
    const wasYielding = this.#isYielding;
    this.#counts = NOTHING;
    this.#askedMs = performance.now();
    const inUse = this.#inUse.size;
    const needed = inUse + (wasYielding ? 0 : this.#waiters.size);
    const kept = !wasYielding && !this.#othersWait && this.#askedMs < this.#keepUntilMs ? this.#held : 0;
    const wanted = Math.min(this.#options.limits.concurrency, Math.max(needed, kept));
    const starts = this.#startsToReserve();
    this.#options.ask({ host: this.#options.host, wanted, inUse, starts, ...counts }).then(
      (answer) => this.#apply(answer, { starts, wasYielding, wanted }),
      () => {
        this.#isAsking = false;
        this.#counts = counts === NOTHING ? this.#counts : added(counts, this.#counts);
        this.#later(AFTER_ERROR_MS);
      },
    );
  }

  #startsToReserve(): number {
    const { rate } = this.#options.limits;
    if (rate === null || this.#startsLeft > 0 || this.#waiters.size === 0) return 0;
    return Math.max(1, Math.min(this.#waiters.size, Math.ceil(rate * RESERVED_SHARE)));
  }

  #apply(answer: PlaceAnswer, { starts, wasYielding, wanted }: { starts: number; wasYielding: boolean; wanted: number }): void {
    this.#isAsking = false;
    const nowMs = performance.now();
    // The ledger gave a place of this process to another one, which happens only if it took the process for dead.
    if (answer.held < this.#inUse.size) {
      this.lose();
      return;
    }
    if (this.#held === 0 || wasYielding) this.#turnStartedMs = nowMs;
    this.#held = answer.held;
    this.#othersWait = answer.othersWait;
    this.#isPaused = answer.isPaused;
    if (wasYielding && !this.#counts.isThrottled) this.#isYielding = false;
    if (starts > 0 && answer.held > 0) {
      this.#startsLeft = starts;
      this.#nextStartMs = nowMs + answer.startInMs;
    }
    const closedMs = answer.isPaused ? AFTER_ERROR_MS : answer.backoffMs;
    if (closedMs > 0) {
      this.#shut(nowMs + closedMs);
      return;
    }
    const isGranted = answer.held >= wanted && wanted < this.#options.limits.concurrency;
    this.#pollMs = isGranted ? 0 : Math.min(POLL_MS.max, Math.max(POLL_MS.first, this.#pollMs * 2));
    if (this.#isYielding) this.#ask();
    else if (this.#waiters.size > 0) this.#settle();
    else if (this.#held > this.#inUse.size) this.#later(KEEP_MS);
  }

  #shut(untilMs: number): void {
    this.#closedUntilMs = untilMs;
    const result = this.#laterAfter(this.#isPaused ? PAUSED_MS : untilMs - performance.now());
    for (const waiter of this.#waiters.takeAll()) waiter.end(result);
    if (this.#held > this.#inUse.size) this.#later(KEEP_MS);
  }

  /** With some jitter, so that the tasks of a host do not all return in the same instant. */
  #laterAfter(ms: number): HostLater {
    return { kind: 'later', retryAfterMs: Math.round(ms + Math.random() * Math.min(2_000, ms / 4)) };
  }

  #full(orgId: string): HostLater {
    const spacingMs = (this.#holdMs / this.#options.limits.concurrency) * (this.#waiters.orgs + 1);
    return { kind: 'later', retryAfterMs: this.#options.laterMs(orgId, spacingMs) };
  }
}
