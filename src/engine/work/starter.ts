import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { BoundedTasks, type Task } from '../../core/bounded-tasks.ts';
import type { Policy } from '../../core/policy.ts';
import type { ClaimedJob } from '../../ledger/attempts/claim-jobs.ts';
import { returnJobs } from '../../ledger/attempts/return-jobs.ts';
import { type StartedAttempt, startedBefore, startJobs } from '../../ledger/attempts/start-jobs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { type EventHub, factsOf } from '../events.ts';
import type { RegisteredHandler } from './registry.ts';
import { RunningAttempt } from './running-attempt.ts';

/** A job that this worker has leased and not started. */
export type LeasedJob = {
  readonly job: ClaimedJob;
  readonly policy: Policy;
  readonly registered: RegisteredHandler;
  readonly claimNo: number;
  /** Read from the monotonic clock before the claim was sent. */
  readonly claimedMs: number;
};

/** `sentMs` was read from the monotonic clock before the start was sent. */
export type Start = StartedAttempt & { sentMs: number };

export type StarterOptions = {
  database: Database;
  workerId: number;
  events: EventHub;
  onStarted(leased: LeasedJob, start: Start): void;
  /** This worker has lost the lease of the job: it was cancelled, or another worker has it. */
  onGone(leased: LeasedJob): void;
  /** The job is back in its queue. */
  onReturned(leased: LeasedJob): void;
  /** Other jobs wait for a job that ended. */
  onReleased(): void;
};

const MAX_PER_STATEMENT = 500;
/** A statement that waits for a row lock does not delay the others. */
const MAX_IN_FLIGHT = 4;

type Leases = ReadonlySet<number>;
type StartResult = { started: ReadonlyMap<number, StartedAttempt>; returned: Leases; cancelled: Leases };
type Order = 'start' | 'return';

const NONE: Leases = new Set();

/**
 * Starts leased jobs, each of which has a free slot, and returns the jobs that are not to start here. The lease makes
 * both safe to repeat: if a response was lost, it sends the statement again and asks the ledger which jobs the first
 * one started.
 */
export class Starter {
  readonly #options: StarterOptions;
  readonly #waiting: Record<Order, LeasedJob[]> = { start: [], return: [] };
  readonly #jobs: Record<Order, number> = { start: 0, return: 0 };
  readonly #tasks = new BoundedTasks(MAX_IN_FLIGHT, () => this.#nextBatch());
  #isStopped = false;
  #isClosed = false;

  constructor(options: StarterOptions) {
    this.#options = options;
  }

  /** Jobs that are leased, but neither running nor back in their queue. */
  get jobs(): number {
    return this.#jobs.start + this.#jobs.return;
  }

  /** Jobs that are about to start. Each occupies a slot. */
  get starting(): number {
    return this.#jobs.start;
  }

  add(leased: readonly LeasedJob[], order: Order = 'start'): void {
    this.#jobs[order] += leased.length;
    this.#waiting[order].push(...leased);
    this.#tasks.pump();
  }

  /** Starts no more jobs: all that are not in flight are returned. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Ends all retries. A rescuer takes over the jobs that the ledger has not confirmed. */
  close(): void {
    this.#isClosed = true;
  }

  #nextBatch(): Task | undefined {
    const order = this.#waiting.start.length > 0 ? 'start' : 'return';
    const batch = this.#waiting[order].splice(0, MAX_PER_STATEMENT);
    return batch.length > 0 ? () => this.#send(batch, order) : undefined;
  }

  async #send(batch: readonly LeasedJob[], order: Order): Promise<void> {
    for (let failures = 0; !this.#isClosed; failures++) {
      const sentMs = performance.now();
      const result = await this.#startOrReturn(batch, order, failures > 0).catch((error) => this.#report(error));
      if (result !== null) {
        this.#jobs[order] -= batch.length;
        return this.#conclude(batch, { ...result, sentMs });
      }
      const delayMs = pauseMs(PAUSES.databaseFailed, failures, Math.random());
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
    this.#jobs[order] -= batch.length;
  }

  async #startOrReturn(batch: readonly LeasedJob[], order: Order, isRetry: boolean): Promise<StartResult> {
    const { workerId, database } = this.#options;
    const jobs = batch.map(({ job }) => job);
    const isToReturn = order === 'return' || this.#isToReturn(batch, isRetry);
    const result = isToReturn ? await this.#return(jobs) : await this.#start(jobs);
    const { started, returned, cancelled } = result;
    const isAnswered = ({ leaseSeq }: ClaimedJob) => started.has(leaseSeq) || returned.has(leaseSeq) || cancelled.has(leaseSeq);
    const missing = isRetry && order === 'start' ? jobs.filter((job) => !isAnswered(job)) : [];
    if (missing.length === 0) return result;
    const before = await startedBefore(database.workers, { workerId, jobs: missing });
    return { ...result, started: new Map([...started, ...before.started]) };
  }

  /** A job that could not be started within its lease is returned, so that another worker can run it. */
  #isToReturn(batch: readonly LeasedJob[], isRetry: boolean): boolean {
    if (this.#isStopped || !isRetry) return this.#isStopped;
    return batch.some(({ claimedMs, policy }) => performance.now() - claimedMs > policy.leaseMs);
  }

  async #start(jobs: readonly ClaimedJob[]): Promise<StartResult> {
    const { workerId, database } = this.#options;
    const { started } = await startJobs(database.workers, { workerId, jobs });
    return { started, returned: NONE, cancelled: NONE };
  }

  async #return(jobs: readonly ClaimedJob[]): Promise<StartResult> {
    const { workerId, database } = this.#options;
    const { landed, cancelled, released } = await returnJobs(database.workers, { workerId, jobs, closedClaims: [] });
    if (released) this.#options.onReleased();
    return { started: new Map(), returned: landed, cancelled };
  }

  #conclude(batch: readonly LeasedJob[], { started, returned, cancelled, sentMs }: StartResult & { sentMs: number }): void {
    const { onStarted, onReturned, onGone, events } = this.#options;
    for (const each of batch) {
      const attempt = started.get(each.job.leaseSeq);
      if (attempt !== undefined) onStarted(each, { ...attempt, sentMs });
      else if (returned.has(each.job.leaseSeq)) onReturned(each);
      else {
        onGone(each);
        if (cancelled.has(each.job.leaseSeq)) events.emit('cancelled', factsOf(each.job));
      }
    }
  }

  #report(error: unknown): null {
    this.#options.events.emit('error', { error, where: 'starter' });
    return null;
  }
}

/** Makes the attempt of a job that has just started. */
export function startedAttempt({ claimedMs, job, ...parts }: LeasedJob, start: Start): RunningAttempt {
  const { attemptsStarted, assignedMs, sentMs: startedMs } = start;
  const lifetimeLeftMs = job.lifetimeLeftMs === null ? null : job.lifetimeLeftMs - (startedMs - claimedMs);
  return new RunningAttempt({ ...parts, job: { ...job, attemptsStarted, lifetimeLeftMs }, startedMs, assignedMs });
}

/** Makes the attempt of a job whose handler runs before the start is written. The job has left the line, so it is changed and not copied. */
export function lateAttempt({ job, policy, registered, claimNo, claimedMs }: LeasedJob): RunningAttempt {
  const startedMs = performance.now();
  job.attemptsStarted++;
  if (job.lifetimeLeftMs !== null) job.lifetimeLeftMs -= startedMs - claimedMs;
  return new RunningAttempt({ job, policy, registered, claimNo, startedMs, startsLate: true });
}
