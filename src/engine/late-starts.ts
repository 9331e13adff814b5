import type { Database } from '../ledger/database.ts';
import { startedBefore, startJobs } from '../ledger/start-jobs.ts';
import type { EventHub } from './events.ts';
import type { Execution } from './execution.ts';

export type LateStartsOptions = { database: Database; workerId: number; events: EventHub };

const MAX_PER_STATEMENT = 500;
/** A statement that waits for a row lock does not hold up the others. */
const MAX_UNDER_WAY = 4;
const MAX_DELAY_MS = 2_000;

type Waiting = { execution: Execution; resolve(hasStarted: boolean): void };

/**
 * Writes the starts of attempts whose handlers already run. Most handlers of such attempts return so soon that their start is written
 * with their outcome; this is for the others, and for whatever the ledger accepts only of a job that has started.
 */
export class LateStarts {
  readonly #options: LateStartsOptions;
  #waiting: Waiting[] = [];
  #underWay = 0;
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
      this.#pump();
    });
  }

  #pump(): void {
    while (this.#waiting.length > 0 && this.#underWay < MAX_UNDER_WAY) {
      this.#underWay++;
      void this.#send(this.#waiting.splice(0, MAX_PER_STATEMENT)).then(() => {
        this.#underWay--;
        this.#pump();
      });
    }
  }

  async #send(batch: readonly Waiting[]): Promise<void> {
    for (let failures = 0; !this.#isClosed; failures++) {
      const started = await this.#start(batch, failures > 0).catch((error) => this.#report(error));
      if (started !== null) return conclude(batch, started);
      const delayMs = Math.random() * Math.min(MAX_DELAY_MS, 50 * 2 ** Math.min(failures, 8));
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
    conclude(batch, new Set());
  }

  /** The lease makes it safe to repeat: a question to the ledger finds out what a statement did whose answer was lost. */
  async #start(batch: readonly Waiting[], isAgain: boolean): Promise<Set<number>> {
    const { workerId, database } = this.#options;
    const jobs = batch.map(({ execution: { job, elapsedMs } }) => ({
      orgId: job.orgId,
      seq: job.seq,
      leaseSeq: job.leaseSeq,
      ranMs: elapsedMs,
    }));
    const { started } = await startJobs(database.workers, { workerId, jobs });
    const missing = isAgain ? jobs.filter(({ leaseSeq }) => !started.has(leaseSeq)) : [];
    if (missing.length === 0) return new Set(started.keys());
    const before = await startedBefore(database.workers, { workerId, jobs: missing });
    return new Set([...started.keys(), ...before.started.keys()]);
  }

  #report(error: unknown): null {
    this.#options.events.emit('error', { error, where: 'late starts' });
    return null;
  }
}

function conclude(batch: readonly Waiting[], started: ReadonlySet<number>): void {
  for (const { execution, resolve } of batch) {
    execution.hasStarted = started.has(execution.job.leaseSeq);
    resolve(execution.hasStarted);
  }
}
