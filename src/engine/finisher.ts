import { completeJobs } from '../ledger/complete-jobs.ts';
import type { Database } from '../ledger/database.ts';
import type { Claims } from './claims.ts';
import type { Execution } from './execution.ts';

export type Finished = { execution: Execution; result: string; value: unknown };

export type FinisherOptions = {
  database: Database;
  workerId: number;
  claims: Claims;
  /** Tries until the database answers. */
  persist<T>(write: () => Promise<T>): Promise<T>;
  /** Of leases that did not land now: those that this very attempt had ended before. */
  landedBefore(executions: readonly Execution[]): Promise<Set<number>>;
  onLanded(finished: Finished): void;
  onLost(execution: Execution): void;
  onReleased(): void;
  onError(error: unknown): void;
  /** A statement's worth is written. */
  onWritten(): void;
};

const MAX_PER_STATEMENT = 500;

/**
 * Completes jobs that plainly succeeded, as many as gathered while the last statement was under way. It deals in lists and not
 * in a promise for each job: at tens of thousands of jobs a second those would cost more than the jobs.
 */
export class Finisher {
  readonly #options: FinisherOptions;
  #finished: Finished[] = [];
  #isWriting = false;
  #isScheduled = false;

  constructor(options: FinisherOptions) {
    this.#options = options;
  }

  get isIdle(): boolean {
    return !this.#isWriting && this.#finished.length === 0;
  }

  add(finished: Finished): void {
    this.#finished.push(finished);
    if (this.#isScheduled || this.#isWriting) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#next();
    });
  }

  #next(): void {
    if (this.#isWriting || this.#finished.length === 0) return;
    this.#isWriting = true;
    const batch = this.#finished.splice(0, MAX_PER_STATEMENT);
    this.#write(batch).catch((error) => this.#options.onError(error));
  }

  async #write(batch: readonly Finished[]): Promise<void> {
    const { database, workerId, claims, persist } = this.#options;
    const closedClaims = claims.takeClosed();
    const finished = batch.map(({ execution: { job }, result }) => ({
      ...{ orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq, result },
    }));
    const { landed, released } = await persist(() =>
      completeJobs(database.finishing, { workerId, finished, closedClaims }),
    ).finally(() => {
      this.#isWriting = false;
    });
    // The next statement goes out before this one's answers are handed on.
    this.#next();
    if (released) this.#options.onReleased();
    await this.#answer(batch, landed);
    this.#options.onWritten();
  }

  async #answer(batch: readonly Finished[], landed: ReadonlySet<number>): Promise<void> {
    const missing: Finished[] = [];
    for (const finished of batch) {
      if (landed.has(finished.execution.job.leaseSeq)) this.#options.onLanded(finished);
      else missing.push(finished);
    }
    if (missing.length === 0) return;
    const before = await this.#options.landedBefore(missing.map(({ execution }) => execution));
    for (const finished of missing) {
      if (before.has(finished.execution.job.leaseSeq)) this.#options.onLanded(finished);
      else this.#options.onLost(finished.execution);
    }
  }
}
