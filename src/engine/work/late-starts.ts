import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { BoundedTasks, type Task } from '../../core/bounded-tasks.ts';
import { startedBefore, startFreeJobs, unstartedOf } from '../../ledger/attempts/start-jobs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import type { Execution } from './execution.ts';

export type LateStartsOptions = { database: Database; workerId: number; events: EventHub };

const MAX_PER_STATEMENT = 500;
const MAX_UNDER_WAY = 4;
/** A job that another transaction holds is tried again after this long. It delays no other. */
const HELD_RETRY_MS = 50;

type Waiting = { execution: Execution; resolve(hasStarted: boolean): void };
type Answer = { started: ReadonlySet<number>; held: ReadonlySet<number> };

/**
 * Writes the starts of attempts whose handlers already run. Most handlers of such attempts return so soon that their start is written
 * with their outcome; this is for the others, and for whatever the ledger accepts only of a job that has started.
 */
export class LateStarts {
  readonly #options: LateStartsOptions;
  #waiting: Waiting[] = [];
  readonly #tasks = new BoundedTasks(MAX_UNDER_WAY, () => this.#nextBatch());
  #isScheduled = false;
  #isClosed = false;

  constructor(options: LateStartsOptions) {
    this.#options = options;
  }

  /** Resolves when the ledger has the start; with false if the job is not this worker's any more. */
  ensure(execution: Execution): Promise<boolean> {
    if (execution.hasStarted) return Promise.resolve(true);
    execution.starting ??= new Promise((resolve) => {
      this.#waiting.push({ execution, resolve });
      this.#pumpSoon();
    });
    return execution.starting;
  }

  /** Leaves to the ledger whatever it has not answered by now. */
  close(): void {
    this.#isClosed = true;
    for (const { resolve } of this.#waiting.splice(0)) resolve(false);
  }

  #pumpSoon(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#tasks.pump();
    });
  }

  #nextBatch(): Task | undefined {
    const batch = this.#waiting.splice(0, MAX_PER_STATEMENT);
    return batch.length > 0 ? () => this.#send(batch) : undefined;
  }

  async #send(batch: readonly Waiting[]): Promise<void> {
    for (let failures = 0; !this.#isClosed; failures++) {
      const answer = await this.#start(batch, failures > 0).catch((error) => this.#report(error));
      if (answer !== null) return this.#conclude(batch, answer);
      const delayMs = pauseMs(PAUSES.databaseFailed, failures, Math.random());
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
    this.#conclude(batch, { started: new Set(), held: new Set() });
  }

  /** The lease makes it safe to repeat: a question to the ledger finds out what a statement did whose answer was lost. */
  async #start(batch: readonly Waiting[], isAgain: boolean): Promise<Answer> {
    const { workerId, database } = this.#options;
    const jobs = batch.map(({ execution: { job, elapsedMs } }) => ({
      orgId: job.orgId,
      seq: job.seq,
      leaseSeq: job.leaseSeq,
      ranMs: elapsedMs,
    }));
    const { started } = await startFreeJobs(database.workers, { workerId, jobs });
    const missing = jobs.filter(({ leaseSeq }) => !started.has(leaseSeq));
    if (missing.length === 0) return { started: new Set(started.keys()), held: new Set() };
    const held = await unstartedOf(database.workers, { workerId, jobs: missing });
    if (!isAgain) return { started: new Set(started.keys()), held };
    const before = await startedBefore(database.workers, { workerId, jobs: missing });
    return { started: new Set([...started.keys(), ...before.started.keys()]), held };
  }

  #conclude(batch: readonly Waiting[], { started, held }: Answer): void {
    const again: Waiting[] = [];
    for (const each of batch) {
      const { execution, resolve } = each;
      execution.hasStarted = started.has(execution.job.leaseSeq);
      if (execution.hasStarted || this.#isClosed || !held.has(execution.job.leaseSeq)) resolve(execution.hasStarted);
      else again.push(each);
    }
    if (again.length > 0) setTimeout(() => this.#retry(again), HELD_RETRY_MS);
  }

  #retry(held: readonly Waiting[]): void {
    this.#waiting.push(...held);
    if (this.#isClosed) this.close();
    else this.#tasks.pump();
  }

  #report(error: unknown): null {
    this.#options.events.emit('error', { error, where: 'late starts' });
    return null;
  }
}
