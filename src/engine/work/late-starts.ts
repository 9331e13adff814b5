import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { BoundedTasks, type Task } from '../../core/bounded-tasks.ts';
import { startedBefore, startFreeJobs, unstartedOf } from '../../ledger/attempts/start-jobs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import type { RunningAttempt } from './running-attempt.ts';

export type LateStartsOptions = { database: Database; workerId: number; events: EventHub };

const MAX_PER_STATEMENT = 500;
const MAX_IN_FLIGHT = 4;
/** A start that met a lock is retried after this long. It does not delay other starts. */
const HELD_RETRY_MS = 50;

type Waiting = { attempt: RunningAttempt; resolve(hasStarted: boolean): void };
type StartResult = { started: ReadonlySet<number>; held: ReadonlySet<number> };

/**
 * Writes the starts of attempts whose handlers already run. Most of these handlers return so soon that their start is
 * written with their outcome. This class is for the others, and for writes that the ledger accepts only from a started
 * job.
 */
export class LateStarts {
  readonly #options: LateStartsOptions;
  #waiting: Waiting[] = [];
  readonly #tasks = new BoundedTasks(MAX_IN_FLIGHT, () => this.#nextBatch());
  #isScheduled = false;
  #isClosed = false;

  constructor(options: LateStartsOptions) {
    this.#options = options;
  }

  /** Resolves when the ledger has the start, or with false if this worker has lost the job. */
  ensure(attempt: RunningAttempt): Promise<boolean> {
    if (attempt.hasStarted) return Promise.resolve(true);
    attempt.starting ??= new Promise((resolve) => {
      this.#waiting.push({ attempt, resolve });
      this.#pumpSoon();
    });
    return attempt.starting;
  }

  /** Ends all retries. The starts that the ledger has not confirmed count as lost. */
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
      const result = await this.#start(batch).catch((error) => this.#report(error));
      if (result !== null) return this.#conclude(batch, result);
      const delayMs = pauseMs(PAUSES.databaseFailed, failures, Math.random());
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
    this.#conclude(batch, { started: new Set(), held: new Set() });
  }

  /** A job may have started before: by a statement whose response was lost, or by the heartbeat thread while this one was blocked. */
  async #start(batch: readonly Waiting[]): Promise<StartResult> {
    const { workerId, database } = this.#options;
    const jobs = batch.map(({ attempt: { job, elapsedMs } }) => ({
      orgId: job.orgId,
      seq: job.seq,
      leaseSeq: job.leaseSeq,
      ranMs: elapsedMs,
    }));
    const { started } = await startFreeJobs(database.workers, { workerId, jobs });
    const missing = jobs.filter(({ leaseSeq }) => !started.has(leaseSeq));
    if (missing.length === 0) return { started: new Set(started.keys()), held: new Set() };
    const held = await unstartedOf(database.workers, { workerId, jobs: missing });
    const before = await startedBefore(database.workers, { workerId, jobs: missing });
    return { started: new Set([...started.keys(), ...before.started.keys()]), held };
  }

  #conclude(batch: readonly Waiting[], { started, held }: StartResult): void {
    const again: Waiting[] = [];
    for (const each of batch) {
      const { attempt, resolve } = each;
      attempt.hasStarted = started.has(attempt.job.leaseSeq);
      if (attempt.hasStarted || this.#isClosed || !held.has(attempt.job.leaseSeq)) resolve(attempt.hasStarted);
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
