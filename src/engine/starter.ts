import type { Policy } from '../core/policy.ts';
import type { ClaimedJob } from '../ledger/claim-jobs.ts';
import type { Database } from '../ledger/database.ts';
import { returnJobs } from '../ledger/return-jobs.ts';
import { type StartedAttempt, startedBefore, startJobs } from '../ledger/start-jobs.ts';
import type { EventHub } from './events.ts';
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
  /** It is this worker's no more: cancelled, or given to another. */
  onGone(unstarted: Unstarted): void;
  /** It waits in the queue again. */
  onReturned(unstarted: Unstarted): void;
};

const MAX_PER_STATEMENT = 500;
/** A statement that waits for a row lock does not hold up the others. */
const MAX_UNDER_WAY = 4;
const MAX_DELAY_MS = 2_000;

type Answer = { started: ReadonlyMap<number, StartedAttempt>; returned: ReadonlySet<number> };

/**
 * Starts claimed jobs, each with a free slot, and returns those that are not to start here. The lease makes both safe to repeat: a
 * statement whose answer was lost is sent again, and a question to the ledger finds out what the first one did.
 */
export class Starter {
  readonly #options: StarterOptions;
  #waiting: Unstarted[] = [];
  #underWay = 0;
  #jobs = 0;
  #isStopped = false;
  #isClosed = false;

  constructor(options: StarterOptions) {
    this.#options = options;
  }

  /** Jobs under lease that neither run nor are back in the queue. */
  get jobs(): number {
    return this.#jobs;
  }

  add(unstarted: readonly Unstarted[]): void {
    this.#jobs += unstarted.length;
    this.#waiting.push(...unstarted);
    this.#pump();
  }

  /** Starts nothing more: jobs that are not on their way are returned. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Leaves to the ledger whatever it has not answered by now. */
  close(): void {
    this.#isClosed = true;
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

  async #send(batch: readonly Unstarted[]): Promise<void> {
    for (let failures = 0; !this.#isClosed; failures++) {
      const sentMs = performance.now();
      const answer = await this.#ask(batch, failures > 0).catch((error) => this.#report(error));
      if (answer !== null) return this.#conclude(batch, { ...answer, sentMs });
      const delayMs = Math.random() * Math.min(MAX_DELAY_MS, 50 * 2 ** Math.min(failures, 8));
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
    this.#jobs -= batch.length;
  }

  async #ask(batch: readonly Unstarted[], isAgain: boolean): Promise<Answer> {
    const { workerId, database } = this.#options;
    const jobs = batch.map(({ job }) => job);
    const answer = this.#isToReturn(batch, isAgain) ? await this.#return(jobs) : await this.#start(jobs);
    const { started, returned } = answer;
    const missing = isAgain ? jobs.filter(({ leaseSeq }) => !started.has(leaseSeq) && !returned.has(leaseSeq)) : [];
    if (missing.length === 0) return answer;
    const before = await startedBefore(database.workers, { workerId, jobs: missing });
    return { started: new Map([...started, ...before.started]), returned };
  }

  /** A job that could not be started for as long as its lease lasts is left to other workers. */
  #isToReturn(batch: readonly Unstarted[], isAgain: boolean): boolean {
    if (this.#isStopped || !isAgain) return this.#isStopped;
    return batch.some(({ claimedMs, policy }) => performance.now() - claimedMs > policy.leaseMs);
  }

  async #start(jobs: readonly ClaimedJob[]): Promise<Answer> {
    const { workerId, database } = this.#options;
    const { started } = await startJobs(database.workers, { workerId, jobs });
    return { started, returned: new Set() };
  }

  async #return(jobs: readonly ClaimedJob[]): Promise<Answer> {
    const { workerId, database } = this.#options;
    const { landed } = await returnJobs(database.workers, { workerId, jobs, closedClaims: [] });
    return { started: new Map(), returned: landed };
  }

  #conclude(batch: readonly Unstarted[], { started, returned, sentMs }: Answer & { sentMs: number }): void {
    const { onStarted, onReturned, onGone } = this.#options;
    this.#jobs -= batch.length;
    for (const each of batch) {
      const attempt = started.get(each.job.leaseSeq);
      if (attempt !== undefined) onStarted(each, { ...attempt, sentMs });
      else if (returned.has(each.job.leaseSeq)) onReturned(each);
      else onGone(each);
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
