import { classify } from '../core/failure.ts';
import type { Policy } from '../core/policy.ts';
import type { Database } from '../ledger/database.ts';
import type { PolicyCache } from '../ledger/intern-policies.ts';
import { isPassing } from '../ledger/statement.ts';
import type { StartedJob, Taken } from '../ledger/take-jobs.ts';
import { Claims } from './claims.ts';
import { Completer } from './completer.ts';
import type { EventHub } from './events.ts';
import { Execution } from './execution.ts';
import { type AttemptOutcome, execute } from './executor.ts';
import { giveBackUnknown } from './give-back-unknown.ts';
import type { JobContext } from './job-context.ts';
import { Producer, type Take } from './producer.ts';
import type { HandlerRegistry } from './registry.ts';
import { refusing, STAND_IN, unserved } from './unrunnable.ts';

export type WorkerOptions = {
  database: Database;
  policies: PolicyCache;
  registry: HandlerRegistry;
  events: EventHub;
  workerId: number;
  slots: number;
  queues: readonly string[];
  lookahead: boolean;
  /** How long a worker that stops insists that its last outcomes are written. */
  lastWritesMs?: number;
  hasCaps(): boolean;
  contextOf(execution: Execution): JobContext;
  onStarted(started: readonly StartedJob[]): void;
  onReleased(): void;
  onDelayed(delayMs: number): void;
};

/** How often deadlines are looked at. A timer for each job would cost more than most jobs take. */
const SWEEP_MS = 20;
const POLICY_RETRY_MS = 500;
const LAST_WRITES_MS = 10_000;

/** The slots of this process: runs what the producer claims, hands on how each attempt ended. */
export class Worker {
  readonly running = new Map<number, Execution>();
  readonly #options: WorkerOptions;
  readonly #claims = new Claims();
  readonly #producer: Producer;
  readonly #completer: Completer;
  /** Started ahead of a free slot; the first `#nextWaiting` of them run already. */
  #waiting: Execution[] = [];
  #nextWaiting = 0;
  /** Attempts whose outcome is on its way to the ledger. */
  #ending = 0;
  #isStopped = false;
  #changed: (() => void) | null = null;
  #sweeper: NodeJS.Timeout | undefined = undefined;

  constructor(options: WorkerOptions) {
    this.#options = options;
    const { database, workerId, events, onReleased, onDelayed } = options;
    const claims = this.#claims;
    this.#completer = new Completer({
      ...{ database, workerId, claims, events, onReleased, onDelayed },
      onWritten: () => this.#ended(),
    });
    this.#producer = new Producer({
      ...{ database, workerId, claims, events },
      ...{
        slots: options.slots,
        queues: options.queues,
        types: options.registry.types(),
        lookahead: options.lookahead,
      },
      hasCaps: options.hasCaps,
      load: () => ({ running: this.running.size, waiting: this.#waiting.length - this.#nextWaiting }),
      begin: (started, claim) => this.#begin(started, claim),
      fill: () => this.#fill(),
      reconcile: () => giveBackUnknown({ ...options, claims }),
    });
  }

  /** Begins to look for work. */
  start(): void {
    this.#sweeper = setInterval(() => this.#sweep(), SWEEP_MS).unref();
    this.wake();
  }

  get id(): number {
    return this.#options.workerId;
  }

  /** There may be work: look now. */
  wake(): void {
    this.#producer.wake();
  }

  /** Somebody is about to send a statement that may bring jobs. Null: it is not sent. */
  offer(take: Take): Promise<Taken> | null {
    return this.#producer.offer(take);
  }

  /** Look for work in these queues from now on. */
  serve(queues: readonly string[]): void {
    this.#producer.serve(queues);
  }

  /**
   * Stops claiming, lets handlers finish for `graceMs`, then gives the rest back at once. What the database does not take in time
   * is left to a rescuer: a process that is to end must not wait for a database that is away.
   */
  async drain(graceMs: number): Promise<void> {
    this.#producer.drain();
    for (const execution of this.#takeWaiting()) void this.#giveBack(execution);
    await this.#settledWithin(graceMs);
    for (const execution of [...this.running.values()]) void this.#giveBack(execution);
    await this.#settledWithin(this.#options.lastWritesMs ?? LAST_WRITES_MS);
    this.#isStopped = true;
    await this.#completer.stop();
    clearInterval(this.#sweeper);
  }

  /** The ledger says these leases are another's now. */
  lose(leaseSeqs: Iterable<number>): void {
    for (const leaseSeq of leaseSeqs) {
      const execution = this.running.get(leaseSeq);
      if (execution === undefined) continue;
      execution.abort('lost_lease');
      this.#conclude(execution, { kind: 'lost' });
    }
  }

  /**
   * No beat got through for so long that the lease may end: stop before it does. The ledger has not said that the job is
   * another's, and if the next beat is in time nobody will ever take it from us, so it is given back once the ledger answers.
   */
  giveUp(leaseSeq: number): void {
    const execution = this.running.get(leaseSeq);
    if (execution !== undefined) void this.#giveBack(execution);
  }

  /** The ledger has given this worker up. Its claims stay as they are: they are how a rescuer finds its jobs. */
  abandon(): void {
    for (const execution of [...this.running.values(), ...this.#takeWaiting()]) {
      execution.abort('lost_lease');
      this.#leave(execution);
      this.#options.events.emit('lost', execution.facts);
    }
  }

  /** A request to stop: soft ones are met at the handler's next checkpoint, forced ones abort it and wait for a grace. */
  cancel(leaseSeq: number, force: boolean): void {
    const execution = this.running.get(leaseSeq);
    if (execution === undefined) return;
    execution.isCancelRequested = true;
    if (!force || execution.abortCause !== undefined) return;
    execution.abort('cancel');
    execution.deadlineMs = performance.now() + execution.policy.cancelGraceMs;
  }

  async #begin(started: readonly StartedJob[], claim: { claimNo: number; sentMs: number }): Promise<void> {
    if (started.length === 0) return;
    this.#claims.open(
      claim.claimNo,
      started.map((job) => job.leaseSeq),
    );
    const { registry, policies } = this.#options;
    for (const job of started) {
      const { claimNo, sentMs: startedMs } = claim;
      const registered = registry.get(job.jobType) ?? unserved(job.jobType);
      const policy = policies.cached(job.policyId) ?? (await this.#policyOf(job.policyId));
      if (this.#isStopped) return;
      this.#waiting.push(
        policy instanceof Error
          ? new Execution({ job, policy: STAND_IN, registered: refusing(job.jobType, policy), claimNo, startedMs })
          : new Execution({ job, policy, registered, claimNo, startedMs }),
      );
    }
    // With every policy known: a lease shorter than any before quickens the heartbeat.
    this.#options.onStarted(started);
  }

  /** Asked for until the database answers: the job is started, and nobody but us knows of it. An error: there is none to be had. */
  async #policyOf(policyId: number): Promise<Policy | Error> {
    for (;;) {
      try {
        return await this.#options.policies.policyOf(policyId);
      } catch (error) {
        this.#report(error);
        if (!isPassing(error) || this.#isStopped) return error as Error;
        await new Promise((resolve) => setTimeout(resolve, Math.random() * POLICY_RETRY_MS));
      }
    }
  }

  #fill(): void {
    while (this.#nextWaiting < this.#waiting.length && this.running.size < this.#options.slots)
      this.#run(this.#waiting[this.#nextWaiting++] as Execution);
    if (this.#nextWaiting === this.#waiting.length && this.#nextWaiting > 0) this.#takeWaiting();
  }

  #takeWaiting(): Execution[] {
    const waiting = this.#waiting.slice(this.#nextWaiting);
    this.#waiting = [];
    this.#nextWaiting = 0;
    return waiting;
  }

  #run(execution: Execution): void {
    const { events, contextOf } = this.#options;
    this.running.set(execution.job.leaseSeq, execution);
    execution.deadlineMs = execution.startedMs + execution.timeLimitMs;
    if (events.hears('started')) events.emit('started', execution.facts);
    void execute(execution, contextOf(execution)).then((outcome) => this.#conclude(execution, outcome));
  }

  #sweep(): void {
    const nowMs = performance.now();
    for (const execution of this.running.values()) {
      if (nowMs < execution.deadlineMs) continue;
      if (execution.abortCause === 'cancel') this.#conclude(execution, { kind: 'cancelled' });
      else this.#timeOut(execution);
    }
  }

  /** The attempt ends at its limit whether or not the handler heeds the signal; what it does later is refused. */
  #timeOut(execution: Execution): void {
    const cause = execution.limitCause;
    execution.abort(cause);
    this.#conclude(execution, { kind: 'failed', failure: classify(execution.abortError(), cause) });
  }

  /** Once for each attempt: frees its slot and hands its outcome on. */
  #conclude(execution: Execution, ended: AttemptOutcome): void {
    if (execution.isConcluded) return;
    const outcome = ownEndFirst(execution, ended);
    this.#leave(execution);
    if (!this.#completer.finish(execution, outcome)) void this.#settle(this.#completer.end(execution, outcome));
    this.#producer.pumpSoon();
    this.#fill();
  }

  #giveBack(execution: Execution): Promise<void> {
    if (execution.isConcluded) return Promise.resolve();
    execution.abort('lost_lease');
    this.#leave(execution);
    return this.#settle(this.#completer.giveBack(execution));
  }

  /** Until the ledger has the outcome, which may have made room under a cap. */
  async #settle(ending: Promise<void>): Promise<void> {
    this.#ending++;
    try {
      await ending;
    } catch (error) {
      this.#report(error);
    }
    this.#ending--;
    this.#ended();
  }

  #ended(): void {
    if (this.#options.hasCaps()) this.#producer.wake();
    this.#wakeDrain();
  }

  #leave(execution: Execution): void {
    execution.isConcluded = true;
    this.running.delete(execution.job.leaseSeq);
    this.#wakeDrain();
  }

  #report(error: unknown): void {
    this.#options.events.emit('error', { error, where: 'worker' });
  }

  #wakeDrain(): void {
    this.#changed?.();
  }

  /** Until no handler runs and every outcome is written, or the time is up. */
  async #settledWithin(limitMs: number): Promise<void> {
    const deadlineMs = performance.now() + limitMs;
    while (this.running.size > 0 || this.#ending > 0 || !this.#completer.isIdle || !this.#producer.isIdle) {
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(leftMs, 50));
        this.#changed = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}

/** A job that its handler completed in a transaction of its own has ended that way, whatever happened to the attempt since. */
function ownEndFirst(execution: Execution, outcome: AttemptOutcome): AttemptOutcome {
  if (!execution.isCompletedByHandler || outcome.kind === 'completed_by_handler') return outcome;
  return { kind: 'completed_by_handler', otherwise: outcome };
}
