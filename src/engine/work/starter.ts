import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { BoundedTasks, type Task } from '../../core/bounded-tasks.ts';
import type { Policy } from '../../core/policy.ts';
import type { ClaimedJob } from '../../ledger/attempts/claim-jobs.ts';
import { returnJobs } from '../../ledger/attempts/return-jobs.ts';
import { type StartedAttempt, startedBefore, startJobs } from '../../ledger/attempts/start-jobs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub, JobFacts } from '../events.ts';
import { Execution } from './execution.ts';
import type { RegisteredHandler } from './registry.ts';

/** A job under lease of this worker that has not started. */
export type Unstarted = {
  readonly job: ClaimedJob;
  readonly policy: Policy;
  readonly registered: RegisteredHandler;
  readonly claimNo: number;
  /** On the monotonic clock, from before the claim was sent. */
  readonly claimedMs: number;
};

/** How a claimed job started. `sentMs`: when the start was sent, on the monotonic clock. */
export type Start = StartedAttempt & { sentMs: number };

export type StarterOptions = {
  database: Database;
  workerId: number;
  events: EventHub;
  onStarted(unstarted: Unstarted, start: Start): void;
  /** It is not this worker's any more: cancelled, or given to another. */
  onGone(unstarted: Unstarted): void;
  /** It waits in the queue again. */
  onReturned(unstarted: Unstarted): void;
  /** A job that ended has others waiting for it. */
  onReleased(): void;
};

const MAX_PER_STATEMENT = 500;
/** A statement that waits for a row lock does not hold up the others. */
const MAX_UNDER_WAY = 4;

type Leases = ReadonlySet<number>;
type Answer = { started: ReadonlyMap<number, StartedAttempt>; returned: Leases; cancelled: Leases };
type Order = 'start' | 'return';

const NONE: Leases = new Set();

/**
 * Starts claimed jobs, each with a free slot, and returns those that are not to start here. The lease makes both safe to repeat: a
 * statement whose answer was lost is sent again, and a question to the ledger finds out what the first one did.
 */
export class Starter {
  readonly #options: StarterOptions;
  readonly #waiting: Record<Order, Unstarted[]> = { start: [], return: [] };
  readonly #jobs: Record<Order, number> = { start: 0, return: 0 };
  readonly #tasks = new BoundedTasks(MAX_UNDER_WAY, () => this.#nextBatch());
  #isStopped = false;
  #isClosed = false;

  constructor(options: StarterOptions) {
    this.#options = options;
  }

  /** Jobs under lease that neither run nor are back in the queue. */
  get jobs(): number {
    return this.#jobs.start + this.#jobs.return;
  }

  /** Jobs under lease that are about to start; each has a slot. */
  get starting(): number {
    return this.#jobs.start;
  }

  add(unstarted: readonly Unstarted[], order: Order = 'start'): void {
    this.#jobs[order] += unstarted.length;
    this.#waiting[order].push(...unstarted);
    this.#tasks.pump();
  }

  /** Starts nothing more: jobs that are not on their way are returned. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Leaves to the ledger whatever it has not answered by now. */
  close(): void {
    this.#isClosed = true;
  }

  #nextBatch(): Task | undefined {
    const order = this.#waiting.start.length > 0 ? 'start' : 'return';
    const batch = this.#waiting[order].splice(0, MAX_PER_STATEMENT);
    return batch.length > 0 ? () => this.#send(batch, order) : undefined;
  }

  async #send(batch: readonly Unstarted[], order: Order): Promise<void> {
    for (let failures = 0; !this.#isClosed; failures++) {
      const sentMs = performance.now();
      const answer = await this.#ask(batch, order, failures > 0).catch((error) => this.#report(error));
      if (answer !== null) {
        this.#jobs[order] -= batch.length;
        return this.#conclude(batch, { ...answer, sentMs });
      }
      const delayMs = pauseMs(PAUSES.databaseFailed, failures, Math.random());
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
    this.#jobs[order] -= batch.length;
  }

  async #ask(batch: readonly Unstarted[], order: Order, isAgain: boolean): Promise<Answer> {
    const { workerId, database } = this.#options;
    const jobs = batch.map(({ job }) => job);
    const isToReturn = order === 'return' || this.#isToReturn(batch, isAgain);
    const answer = isToReturn ? await this.#return(jobs) : await this.#start(jobs);
    const { started, returned, cancelled } = answer;
    const isAnswered = ({ leaseSeq }: ClaimedJob) =>
      started.has(leaseSeq) || returned.has(leaseSeq) || cancelled.has(leaseSeq);
    const missing = isAgain && order === 'start' ? jobs.filter((job) => !isAnswered(job)) : [];
    if (missing.length === 0) return answer;
    const before = await startedBefore(database.workers, { workerId, jobs: missing });
    return { ...answer, started: new Map([...started, ...before.started]) };
  }

  /** A job that could not be started for as long as its lease lasts is left to other workers. */
  #isToReturn(batch: readonly Unstarted[], isAgain: boolean): boolean {
    if (this.#isStopped || !isAgain) return this.#isStopped;
    return batch.some(({ claimedMs, policy }) => performance.now() - claimedMs > policy.leaseMs);
  }

  async #start(jobs: readonly ClaimedJob[]): Promise<Answer> {
    const { workerId, database } = this.#options;
    const { started } = await startJobs(database.workers, { workerId, jobs });
    return { started, returned: NONE, cancelled: NONE };
  }

  async #return(jobs: readonly ClaimedJob[]): Promise<Answer> {
    const { workerId, database } = this.#options;
    const { landed, cancelled, released } = await returnJobs(database.workers, { workerId, jobs, closedClaims: [] });
    if (released) this.#options.onReleased();
    return { started: new Map(), returned: landed, cancelled };
  }

  #conclude(batch: readonly Unstarted[], { started, returned, cancelled, sentMs }: Answer & { sentMs: number }): void {
    const { onStarted, onReturned, onGone, events } = this.#options;
    for (const each of batch) {
      const attempt = started.get(each.job.leaseSeq);
      if (attempt !== undefined) onStarted(each, { ...attempt, sentMs });
      else if (returned.has(each.job.leaseSeq)) onReturned(each);
      else {
        onGone(each);
        if (cancelled.has(each.job.leaseSeq)) events.emit('cancelled', factsOf(each));
      }
    }
  }

  #report(error: unknown): null {
    this.#options.events.emit('error', { error, where: 'starter' });
    return null;
  }
}

/** The attempt of a job that has just started. */
export function startedExecution({ claimedMs, job, ...parts }: Unstarted, start: Start): Execution {
  const { attemptsStarted, assignedMs, sentMs: startedMs } = start;
  const lifetimeLeftMs = job.lifetimeLeftMs === null ? null : job.lifetimeLeftMs - (startedMs - claimedMs);
  return new Execution({ ...parts, job: { ...job, attemptsStarted, lifetimeLeftMs }, startedMs, assignedMs });
}

/** The attempt of a job that runs before its start is written. */
export function lateExecution({ job, policy, registered, claimNo, claimedMs }: Unstarted): Execution {
  const startedMs = performance.now();
  const lifetimeLeftMs = job.lifetimeLeftMs === null ? null : job.lifetimeLeftMs - (startedMs - claimedMs);
  const attempt = { ...job, attemptsStarted: job.attemptsStarted + 1, lifetimeLeftMs };
  return new Execution({ job: attempt, policy, registered, claimNo, startedMs, startsLate: true });
}

const factsOf = ({ job }: Unstarted): JobFacts => ({
  jobId: job.id,
  type: job.jobType,
  attempt: job.attemptsStarted,
  orgId: job.orgId,
  tags: job.tags,
  createdAtMs: job.createdAtMs,
});
