import { fitting } from '../ledger/batcher.ts';
import { completeJobs } from '../ledger/complete-jobs.ts';
import type { Database } from '../ledger/database.ts';
import type { Claims } from './claims.ts';
import type { Execution } from './execution.ts';
import type { Persister } from './persister.ts';

export type Finished = { execution: Execution; result: string; value: unknown };

export type FinisherOptions = {
  database: Database;
  workerId: number;
  claims: Claims;
  persister: Persister;
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

/**
 * Completes jobs that plainly succeeded, as many as gathered while the last statement was under way. It deals in lists and not
 * in a promise for each job: at tens of thousands of jobs a second those would cost more than the jobs.
 */
export class Finisher {
  readonly #options: FinisherOptions;
  #finished: Finished[] = [];
  #isWriting = false;
  #writing: Promise<void> = Promise.resolve();
  #isScheduled = false;

  constructor(options: FinisherOptions) {
    this.#options = options;
  }

  get isIdle(): boolean {
    return !this.#isWriting && this.#finished.length === 0;
  }

  /** When the statement under way is answered. */
  get written(): Promise<void> {
    return this.#writing;
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
    if (this.#options.persister.isStopped) this.#finished = [];
    if (this.#isWriting || this.#finished.length === 0) return;
    this.#isWriting = true;
    const batch = this.#finished.splice(0, fitting(this.#finished, MAX_PER_STATEMENT, lengthOf));
    this.#writing = this.#write(batch).catch((error) => this.#options.onError(error));
  }

  async #write(batch: readonly Finished[]): Promise<void> {
    const { claims, persister } = this.#options;
    const written: Written = { landed: new Set(), released: false, closedClaims: claims.takeClosed() };
    const refused = new Set<Finished>();
    try {
      await persister.writeInParts(batch, {
        send: (part) => this.#send(part, written),
        refuse: (finished) => refused.add(finished),
      });
    } finally {
      claims.reopen(written.closedClaims);
      this.#isWriting = false;
      // The next statement goes out before this one's answers are handed on.
      this.#next();
    }
    if (written.released) this.#options.onReleased();
    await this.#answer(batch, written.landed, refused);
    this.#options.onWritten();
  }

  async #send(part: readonly Finished[], written: Written): Promise<void> {
    const { database, workerId } = this.#options;
    const finished = part.map(({ execution: { job }, result }) => ({
      ...{ orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq, result },
    }));
    const { closedClaims } = written;
    const { landed, released } = await completeJobs(database.finishing, { workerId, finished, closedClaims });
    written.closedClaims = [];
    if (written.landed.size === 0) written.landed = landed;
    else for (const leaseSeq of landed) written.landed.add(leaseSeq);
    written.released ||= released;
  }

  async #answer(
    batch: readonly Finished[],
    landed: ReadonlySet<number>,
    refused: ReadonlySet<Finished>,
  ): Promise<void> {
    const missing: Finished[] = [];
    for (const finished of batch) {
      if (landed.has(finished.execution.job.leaseSeq)) this.#options.onLanded(finished);
      else missing.push(finished);
    }
    if (missing.length === 0) return;
    const before = await this.#options.landedBefore(missing.map(({ execution }) => execution));
    for (const finished of missing) {
      if (before.has(finished.execution.job.leaseSeq)) this.#options.onLanded(finished);
      else if (refused.has(finished)) this.#options.onRefused(finished);
      else this.#options.onLost(finished.execution);
    }
  }
}

type Written = { landed: Set<number>; released: boolean; closedClaims: readonly number[] };

const lengthOf = ({ result }: Finished): number => result.length;
