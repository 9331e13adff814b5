import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { type Completed, completeJobs, completeLateJobs } from '../../ledger/attempts/complete-jobs.ts';
import { noteBatch } from '../../ledger/driver/batch-sizes.ts';
import { fitting } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { isContended } from '../../ledger/driver/statement.ts';
import type { Claims } from './claims.ts';
import type { RetryingWriter } from './retrying-writer.ts';
import type { RunningAttempt } from './running-attempt.ts';

/** `ranMs` counts until the handler returned. */
export type Completion = { attempt: RunningAttempt; result: string; value: unknown; ranMs: number };

export type CompletionWriterOptions = {
  database: Database;
  workerId: number;
  claims: Claims;
  retrying: RetryingWriter;
  /** Whether jobs that were leased ahead wait for a slot. If so, a short wait for a larger statement pays off. */
  hasLeasedAhead(): boolean;
  /** Returns the leases whose completion landed in an earlier statement, the response to which was lost. */
  landedBefore(attempts: readonly RunningAttempt[]): Promise<Set<number>>;
  onLanded(completion: Completion): void;
  onLost(attempt: RunningAttempt): void;
  /** The statement did not write this completion: the database refused it, or the heartbeat thread may have started the job. */
  onRefused(completion: Completion): void;
  onReleased(): void;
  onError(error: unknown): void;
  /** A statement has returned. */
  onWritten(): void;
};

const MAX_PER_STATEMENT = 500;
/** How long completions gather while jobs wait for a slot, and how many are sent without waiting. */
const GATHER_MS = 10;
const GATHERED_JOBS = 250;
/** After a batch has met a lock, batches skip locked rows for this long. */
const SKIP_LOCKED_MS = 1_000;

type Written = { landed: Set<number>; held: Set<number>; released: boolean; closedClaims: readonly number[] };

/**
 * Completes jobs that simply succeeded. Completions that arrive while a statement is in flight share the next one. It
 * works on lists without a promise for each job: at tens of thousands of jobs a second, promises would cost more than
 * the jobs. A job whose row another transaction has locked leaves the batch and is retried separately.
 */
export class CompletionWriter {
  readonly #options: CompletionWriterOptions;
  #waiting: Completion[] = [];
  #held: Completion[] = [];
  #heldTries = 0;
  #heldTimer: NodeJS.Timeout | null = null;
  #inFlight = 0;
  #isWriting = false;
  #skipLockedUntilMs = 0;
  #writing: Promise<unknown> = Promise.resolve();
  #isScheduled = false;
  #gathering: NodeJS.Timeout | null = null;

  constructor(options: CompletionWriterOptions) {
    this.#options = options;
  }

  get isIdle(): boolean {
    return !this.#isWriting && this.unwritten === 0;
  }

  /** Completions that the ledger has not confirmed. */
  get unwritten(): number {
    return this.#waiting.length + this.#inFlight + this.#held.length;
  }

  /** Completions of jobs that another transaction holds. */
  get held(): number {
    return this.#held.length;
  }

  /** Resolves when the statements in flight have returned. */
  get written(): Promise<unknown> {
    return this.#writing;
  }

  add(completion: Completion): void {
    this.#waiting.push(completion);
    if (this.#isScheduled || this.#isWriting) return;
    this.#isScheduled = true;
    // Handlers whose timers fire in the same turn of the event loop end one by one, with microtasks in between.
    setImmediate(() => {
      this.#isScheduled = false;
      this.#nextWhenGathered();
    });
  }

  #nextWhenGathered(): void {
    if (this.#waiting.length < GATHERED_JOBS && this.#options.hasLeasedAhead()) {
      this.#gathering ??= setTimeout(() => this.#next(), GATHER_MS);
    } else this.#next();
  }

  /** Discards completions that are not in flight. */
  stop(): void {
    if (this.#heldTimer !== null) clearTimeout(this.#heldTimer);
    if (this.#gathering !== null) clearTimeout(this.#gathering);
    this.#waiting = [];
    this.#held = [];
  }

  #next(): void {
    if (this.#gathering !== null) clearTimeout(this.#gathering);
    this.#gathering = null;
    if (this.#options.retrying.isStopped) this.stop();
    if (this.#isWriting || this.#waiting.length === 0) return;
    this.#isWriting = true;
    const batch = this.#waiting.splice(0, fitting(this.#waiting, MAX_PER_STATEMENT, lengthOf));
    this.#writing = this.#write(batch, () => {
      this.#isWriting = false;
      // The next statement is sent before the results of this one are passed on.
      this.#nextWhenGathered();
    });
  }

  async #write(batch: readonly Completion[], onWritten: () => void): Promise<void> {
    const { claims, retrying, onError } = this.#options;
    const written: Written = { landed: new Set(), held: new Set(), released: false, closedClaims: claims.takeClosed() };
    const refused = new Set<Completion>();
    this.#inFlight += batch.length;
    try {
      await retrying.writeInParts(batch, {
        send: (part) => this.#send(part, written),
        refuse: (completion) => refused.add(completion),
      });
    } catch (error) {
      onError(error);
      return;
    } finally {
      claims.reopen(written.closedClaims);
      this.#inFlight -= batch.length;
      onWritten();
    }
    if (written.released) this.#options.onReleased();
    await this.#passOn(batch, written, refused).catch(onError);
    this.#options.onWritten();
  }

  async #send(part: readonly Completion[], written: Written): Promise<void> {
    const { workerId } = this.#options;
    const db = this.#options.database.finishing;
    const started = part.filter(({ attempt }) => attempt.hasStarted).map(rowOf);
    const late = part.filter(({ attempt }) => !attempt.hasStarted).map(lateRowOf);
    const shared = () => ({ workerId, closedClaims: written.closedClaims });
    noteBatch('complete', part.length);
    if (started.length > 0) {
      const params = { ...shared(), finished: started };
      note(written, await this.#complete((options) => completeJobs(db, params, options)));
    }
    if (late.length > 0) {
      const params = { ...shared(), finished: late };
      note(written, await this.#complete((options) => completeLateJobs(db, params, options)));
    }
  }

  /** Tries the statement that waits for locks, which is cheaper. If it meets one, sends the statement that skips locked rows. */
  async #complete(send: (options: { skipsLocked: boolean }) => Promise<Completed>): Promise<Completed> {
    const skipsLocked = performance.now() < this.#skipLockedUntilMs;
    try {
      return await send({ skipsLocked });
    } catch (error) {
      if (skipsLocked || !isContended(error)) throw error;
      this.#skipLockedUntilMs = performance.now() + SKIP_LOCKED_MS;
      return send({ skipsLocked: true });
    }
  }

  async #passOn(batch: readonly Completion[], { landed, held }: Written, refused: ReadonlySet<Completion>): Promise<void> {
    const missing: Completion[] = [];
    const locked: Completion[] = [];
    for (const completion of batch) {
      const { leaseSeq } = completion.attempt.job;
      if (landed.has(leaseSeq)) this.#options.onLanded(completion);
      else if (held.has(leaseSeq)) locked.push(completion);
      else missing.push(completion);
    }
    if (locked.length > 0) this.#retryLater(locked);
    if (missing.length === 0) return;
    const before = await this.#options.landedBefore(missing.map(({ attempt }) => attempt));
    for (const completion of missing) {
      if (before.has(completion.attempt.job.leaseSeq)) this.#options.onLanded(completion);
      else if (refused.has(completion) || !completion.attempt.hasStarted) this.#options.onRefused(completion);
      else this.#options.onLost(completion.attempt);
    }
  }

  #retryLater(locked: readonly Completion[]): void {
    if (this.#options.retrying.isStopped) return;
    this.#held.push(...locked);
    const delayMs = pauseMs(PAUSES.outcomeHeld, this.#heldTries, Math.random());
    this.#heldTimer ??= setTimeout(() => {
      this.#heldTimer = null;
      this.#retryHeld();
    }, delayMs);
  }

  #retryHeld(): void {
    const batch = this.#held.splice(0, fitting(this.#held, MAX_PER_STATEMENT, lengthOf));
    const before = this.#held.length;
    this.#skipLockedUntilMs = Math.max(this.#skipLockedUntilMs, performance.now() + SKIP_LOCKED_MS);
    const retrying = this.#write(batch, () => {}).then(() => {
      this.#heldTries = this.#held.length > before ? Math.min(this.#heldTries + 1, 5) : 0;
      if (this.#held.length > 0) this.#retryLater([]);
    });
    this.#writing = Promise.all([this.#writing, retrying]);
  }
}

function note(written: Written, { landed, held, released }: Completed): void {
  written.closedClaims = [];
  for (const leaseSeq of landed) written.landed.add(leaseSeq);
  for (const leaseSeq of held) written.held.add(leaseSeq);
  written.released ||= released;
}

const rowOf = ({ attempt: { job }, result }: Completion) => ({
  orgId: job.orgId,
  seq: job.seq,
  leaseSeq: job.leaseSeq,
  result,
});

const lateRowOf = (completion: Completion) => ({
  ...rowOf(completion),
  agoMs: completion.attempt.elapsedMs,
  ranMs: completion.ranMs,
});

const lengthOf = ({ result }: Completion): number => result.length;
