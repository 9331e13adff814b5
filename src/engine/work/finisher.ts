import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { type Completed, completeJobs, completeLateJobs } from '../../ledger/attempts/complete-jobs.ts';
import { fitting } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { isContended } from '../../ledger/driver/statement.ts';
import type { Claims } from './claims.ts';
import type { Execution } from './execution.ts';
import type { Persister } from './persister.ts';

/** `ranMs`: until the handler returned. */
export type Finished = { execution: Execution; result: string; value: unknown; ranMs: number };

export type FinisherOptions = {
  database: Database;
  workerId: number;
  claims: Claims;
  persister: Persister;
  /** Whether jobs wait in line here, so that larger statements are worth a short wait. */
  hasLine(): boolean;
  /** Of leases that did not land now: those that this very attempt had ended before. */
  landedBefore(executions: readonly Execution[]): Promise<Set<number>>;
  onLanded(finished: Finished): void;
  onLost(execution: Execution): void;
  /** The database will not have this result, whatever is written beside it. */
  onRefused(finished: Finished): void;
  onReleased(): void;
  onError(error: unknown): void;
  /** A statement's worth is written. */
  onWritten(): void;
};

const MAX_PER_STATEMENT = 500;
/** How long outcomes gather while jobs wait in line, and how many make a statement that is worth sending at once. */
const GATHER_MS = 10;
const GATHERED = 250;
/** After a batch met a lock, batches skip locked rows for this long. */
const CAREFUL_MS = 1_000;

type Written = { landed: Set<number>; held: Set<number>; released: boolean; closedClaims: readonly number[] };

/**
 * Completes jobs that plainly succeeded, as many as gathered while the last statement was in flight. It works on lists without a
 * promise for each job: at tens of thousands of jobs a second promises would cost more than the jobs. A job whose row another
 * transaction has locked leaves the batch and is retried apart from it.
 */
export class Finisher {
  readonly #options: FinisherOptions;
  #finished: Finished[] = [];
  #held: Finished[] = [];
  #heldTries = 0;
  #heldTimer: NodeJS.Timeout | null = null;
  #inFlight = 0;
  #isWriting = false;
  #carefulUntilMs = 0;
  #writing: Promise<unknown> = Promise.resolve();
  #isScheduled = false;
  #gathering: NodeJS.Timeout | null = null;

  constructor(options: FinisherOptions) {
    this.#options = options;
  }

  get isIdle(): boolean {
    return !this.#isWriting && this.unwritten === 0;
  }

  /** Outcomes that the ledger has not confirmed. */
  get unwritten(): number {
    return this.#finished.length + this.#inFlight + this.#held.length;
  }

  /** Outcomes of jobs that another transaction holds. */
  get held(): number {
    return this.#held.length;
  }

  /** Resolves when the statements in flight have returned. */
  get written(): Promise<unknown> {
    return this.#writing;
  }

  add(finished: Finished): void {
    this.#finished.push(finished);
    if (this.#isScheduled || this.#isWriting) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#nextWhenGathered();
    });
  }

  #nextWhenGathered(): void {
    if (this.#finished.length < GATHERED && this.#options.hasLine()) {
      this.#gathering ??= setTimeout(() => this.#next(), GATHER_MS);
    } else this.#next();
  }

  /** Discards outcomes that are not on their way. */
  stop(): void {
    if (this.#heldTimer !== null) clearTimeout(this.#heldTimer);
    if (this.#gathering !== null) clearTimeout(this.#gathering);
    this.#finished = [];
    this.#held = [];
  }

  #next(): void {
    if (this.#gathering !== null) clearTimeout(this.#gathering);
    this.#gathering = null;
    if (this.#options.persister.isStopped) this.stop();
    if (this.#isWriting || this.#finished.length === 0) return;
    this.#isWriting = true;
    const batch = this.#finished.splice(0, fitting(this.#finished, MAX_PER_STATEMENT, lengthOf));
    this.#writing = this.#write(batch, () => {
      this.#isWriting = false;
      // The next statement goes out before this one's answers are handed on.
      this.#nextWhenGathered();
    });
  }

  async #write(batch: readonly Finished[], onWritten: () => void): Promise<void> {
    const { claims, persister, onError } = this.#options;
    const written: Written = { landed: new Set(), held: new Set(), released: false, closedClaims: claims.takeClosed() };
    const refused = new Set<Finished>();
    this.#inFlight += batch.length;
    try {
      await persister.writeInParts(batch, {
        send: (part) => this.#send(part, written),
        refuse: (finished) => refused.add(finished),
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
    await this.#answer(batch, written, refused).catch(onError);
    this.#options.onWritten();
  }

  async #send(part: readonly Finished[], written: Written): Promise<void> {
    const { workerId } = this.#options;
    const db = this.#options.database.finishing;
    const started = part.filter(({ execution }) => execution.hasStarted).map(rowOf);
    const late = part.filter(({ execution }) => !execution.hasStarted).map(lateRowOf);
    const shared = () => ({ workerId, closedClaims: written.closedClaims });
    if (started.length > 0) {
      const params = { ...shared(), finished: started };
      note(written, await this.#complete((options) => completeJobs(db, params, options)));
    }
    if (late.length > 0) {
      const params = { ...shared(), finished: late };
      note(written, await this.#complete((options) => completeLateJobs(db, params, options)));
    }
  }

  /** Sends a batch in the cheap way, and if a lock is in its way once more past all locks. */
  async #complete(send: (options: { skipsLocked: boolean }) => Promise<Completed>): Promise<Completed> {
    const isCareful = performance.now() < this.#carefulUntilMs;
    try {
      return await send({ skipsLocked: isCareful });
    } catch (error) {
      if (isCareful || !isContended(error)) throw error;
      this.#carefulUntilMs = performance.now() + CAREFUL_MS;
      return send({ skipsLocked: true });
    }
  }

  async #answer(batch: readonly Finished[], { landed, held }: Written, refused: ReadonlySet<Finished>): Promise<void> {
    const missing: Finished[] = [];
    const locked: Finished[] = [];
    for (const finished of batch) {
      const { leaseSeq } = finished.execution.job;
      if (landed.has(leaseSeq)) this.#options.onLanded(finished);
      else if (held.has(leaseSeq)) locked.push(finished);
      else missing.push(finished);
    }
    if (locked.length > 0) this.#retryLater(locked);
    if (missing.length === 0) return;
    const before = await this.#options.landedBefore(missing.map(({ execution }) => execution));
    for (const finished of missing) {
      if (before.has(finished.execution.job.leaseSeq)) this.#options.onLanded(finished);
      else if (refused.has(finished)) this.#options.onRefused(finished);
      else this.#options.onLost(finished.execution);
    }
  }

  #retryLater(locked: readonly Finished[]): void {
    if (this.#options.persister.isStopped) return;
    this.#held.push(...locked);
    const delayMs = pauseMs(PAUSES.outcomeHeld, this.#heldTries, Math.random());
    this.#heldTimer ??= setTimeout(() => {
      this.#heldTimer = null;
      this.#retryHeld();
    }, delayMs);
  }

  #retryHeld(): void {
    const batch = this.#held.splice(0, MAX_PER_STATEMENT);
    const before = this.#held.length;
    this.#carefulUntilMs = Math.max(this.#carefulUntilMs, performance.now() + CAREFUL_MS);
    const retrying = this.#write(batch, () => {}).then(() => {
      this.#heldTries = this.#held.length > before ? Math.min(this.#heldTries + 1, 5) : 0;
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

const rowOf = ({ execution: { job }, result }: Finished) => ({
  orgId: job.orgId,
  seq: job.seq,
  leaseSeq: job.leaseSeq,
  result,
});

const lateRowOf = (finished: Finished) => ({
  ...rowOf(finished),
  agoMs: finished.execution.elapsedMs,
  ranMs: finished.ranMs,
});

const lengthOf = ({ result }: Finished): number => result.length;
