import type { Lease } from '../../ledger/attempts/start-jobs.ts';
import type { StartedJob } from '../../ledger/attempts/take-jobs.ts';
import { askPolicy } from './ask-policy.ts';
import { BegunLeases } from './begun-leases.ts';
import { Claims } from './claims.ts';
import { Completer } from './completer.ts';
import { Execution } from './execution.ts';
import { type AttemptOutcome, execute, ownEndFirst } from './executor.ts';
import { giveBackUnknown } from './give-back-unknown.ts';
import { LateStarts } from './late-starts.ts';
import { LeasedAhead } from './leased-ahead.ts';
import { OutcomeBacklog } from './outcome-backlog.ts';
import { type Claim, Producer } from './producer.ts';
import { Settling } from './settling.ts';
import { lateExecution, Starter, startedExecution, type Unstarted } from './starter.ts';
import { Sweeper } from './sweeper.ts';
import { takingAhead, takingOf } from './taking.ts';
import { runnableOf } from './unrunnable.ts';
import type { WorkerOptions } from './worker-options.ts';

const LAST_WRITES_MS = 10_000;

/** The slots of this process: runs what the producer claims, hands on how each attempt ended. */
export class Worker {
  readonly running = new Map<number, Execution>();
  readonly begun: BegunLeases;
  readonly #options: WorkerOptions;
  readonly #claims = new Claims();
  readonly #producer: Producer;
  readonly #completer: Completer;
  readonly #starter: Starter;
  readonly #lateStarts: LateStarts;
  readonly #ahead: LeasedAhead;
  /** Attempts that a claim started: they run as soon as the next statement is on its way. */
  #fresh: Execution[] = [];
  readonly #backlog = new OutcomeBacklog(() => ({
    outcomes: this.#completer.unwritten + this.#ending,
    held: this.#completer.held,
  }));
  readonly #settling = new Settling(() => this.#isSettled());
  readonly #sweeper = new Sweeper({
    running: this.running,
    onSweep: (nowMs) => this.#ahead.sweep(nowMs),
    onLate: (execution) => void this.ensureStarted(execution),
    onDue: (execution, outcome) => this.#conclude(execution, outcome),
  });
  /** Attempts whose outcome is on its way to the ledger. */
  #ending = 0;
  #isStopped = false;
  /** What starts from here on is given back at once. */
  #isClosing = false;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.begun = new BegunLeases(options.slots);
    const { database, workerId, events, onReleased, onDelayed } = options;
    const claims = this.#claims;
    this.#completer = new Completer({
      ...{ database, workerId, claims, events, onReleased, onDelayed },
      hasLine: () => this.#ahead.length > 0,
      ensureStarted: (execution) => this.ensureStarted(execution),
      onWritten: () => this.#ended(),
    });
    this.#lateStarts = new LateStarts({ database, workerId, events });
    this.#starter = new Starter({
      ...{ database, workerId, events, onReleased },
      onStarted: (unstarted, start) => this.#admit(startedExecution(unstarted, start)),
      onGone: (unstarted) => this.#dropped(unstarted),
      onReturned: (unstarted) => this.#dropped(unstarted, { isReady: true }),
    });
    const { slots, queues, startsApart, fairQueues, hasCaps } = options;
    const types = options.registry.types();
    this.#ahead = new LeasedAhead({
      slots: startsApart ? 0 : slots,
      starter: this.#starter,
      runLate: (unstarted) => this.#run(lateExecution(unstarted)),
      onGone: (unstarted) => this.#dropped(unstarted),
    });
    this.#producer = new Producer({
      ...{ workerId, claims, events, slots, queues, types, fairQueues, hasCaps },
      take: takingOf({ database, types, hasCaps, startsApart }),
      takeAhead: takingAhead(database),
      ahead: this.#ahead,
      busy: () => this.#busy(),
      begin: (started, claim) => this.#begin(started, claim),
      fill: () => this.#fill(),
      reconcile: () => giveBackUnknown({ ...options, claims }),
    });
  }

  /** Begins to look for work. */
  start(): void {
    this.#sweeper.start();
    if (!this.#options.startsApart) this.#options.producers.add(this.#producer);
    this.wake();
  }

  get id(): number {
    return this.#options.workerId;
  }

  /** There may be work: look now. */
  wake(): void {
    this.#producer.wake();
  }

  /** Looks in these queues from now on. */
  serve(queues: readonly string[]): void {
    this.#producer.serve(queues);
  }

  /**
   * Stops claiming, lets handlers finish for `graceMs`, then gives the rest back at once. What the database does not take in time
   * is left to a rescuer: a process that is to end must not wait for a database that is away.
   */
  async drain(graceMs: number): Promise<void> {
    this.#options.producers.remove(this.#producer);
    this.#producer.drain();
    this.#starter.stop();
    this.#ahead.stop();
    await this.#settling.within(graceMs);
    this.#isClosing = true;
    for (const execution of [...this.running.values()]) void this.#giveBack(execution);
    await this.#settling.within(this.#options.lastWritesMs ?? LAST_WRITES_MS);
    this.#isStopped = true;
    this.#starter.close();
    this.#lateStarts.close();
    await this.#completer.stop();
    this.#sweeper.stop();
  }

  /** The ledger says these leases are another's now. */
  lose(leaseSeqs: Iterable<number>): void {
    for (const leaseSeq of leaseSeqs) {
      const execution = this.running.get(leaseSeq);
      execution?.abort('lost_lease');
      if (execution === undefined) this.#ahead.lose(leaseSeq);
      else this.#conclude(execution, { kind: 'lost' });
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
    this.#options.producers.remove(this.#producer);
    this.#starter.stop();
    this.#isClosing = true;
    this.#ahead.abandon();
    for (const execution of this.running.values()) {
      execution.abort('lost_lease');
      this.#leave(execution);
      this.#options.events.emit('lost', execution.facts);
    }
  }

  /** A request to stop: soft ones are met at the handler's next checkpoint, forced ones abort it and wait for a grace. */
  cancel(leaseSeq: number, force: boolean): void {
    const execution = this.running.get(leaseSeq);
    if (execution === undefined) this.#ahead.cancel(leaseSeq);
    else execution.requestCancel(force);
  }

  /** Every lease that this worker holds and has not given back. */
  leases(): Lease[] {
    const held = [...this.running.values(), ...this.#ahead.all()];
    return held.map(({ job: { orgId, seq, leaseSeq } }) => ({ orgId, seq, leaseSeq }));
  }

  /** Resolves when the ledger has the start of an attempt; with false if the job is not this worker's any more. */
  async ensureStarted(execution: Execution): Promise<boolean> {
    const hasStarted = await this.#lateStarts.ensure(execution);
    if (!hasStarted) this.lose([execution.job.leaseSeq]);
    return hasStarted;
  }

  async #begin(jobs: readonly StartedJob[], { claimNo, sentMs, isAhead }: Claim): Promise<void> {
    if (jobs.length === 0) return;
    const { policies, registry, startsApart } = this.#options;
    this.#claims.open(claimNo, jobs);
    const unstarted: Unstarted[] = [];
    for (const job of jobs) {
      const policy = policies.cached(job.policyId) ?? (await askPolicy(policies, job.policyId, this.#asking));
      if (this.#isStopped) return;
      const runnable = runnableOf(job.jobType, { policy, registered: registry.get(job.jobType) });
      const parts = { job, ...runnable, claimNo };
      if (startsApart || isAhead) unstarted.push({ ...parts, claimedMs: sentMs });
      else this.#fresh.push(new Execution({ ...parts, startedMs: sentMs }));
    }
    // With every policy known: a lease shorter than any before quickens the heartbeat.
    this.#options.onStarted(jobs);
    if (isAhead) this.#ahead.push(unstarted);
    else this.#starter.add(unstarted);
  }

  /** It never started here, and is not this worker's any more. `isReady`: it waits in the queue again. */
  #dropped({ claimNo, job }: Unstarted, { isReady = false } = {}): void {
    this.#claims.done(claimNo, job.leaseSeq);
    if (isReady) this.#options.onDelayed(0);
    this.#producer.pumpSoon();
    this.#ended();
  }

  /** Runs the jobs that a claim started. */
  #fill(): void {
    for (const execution of this.#fresh.splice(0)) this.#admit(execution);
    this.#fillFromLine();
  }

  /** Gives free slots to the jobs in line. */
  #fillFromLine(): void {
    if (this.#ahead.length > 0) this.#ahead.fill(this.#options.slots - this.#busy());
  }

  /** Slots that are taken: by handlers, by jobs about to start, and by outcomes that cannot be written. */
  #busy(): number {
    return this.running.size + this.#fresh.length + this.#starter.starting + this.#backlog.slots;
  }

  #admit(execution: Execution): void {
    if (this.#isClosing) void this.#giveBack(execution);
    else this.#run(execution);
  }

  #run(execution: Execution): void {
    const { events, contextOf } = this.#options;
    this.running.set(execution.job.leaseSeq, execution);
    if (!execution.hasStarted) this.begun.add(execution.job.leaseSeq);
    execution.deadlineMs = execution.startedMs + execution.timeLimitMs;
    if (events.hears('started')) events.emit('started', { ...execution.facts, assignedMs: execution.assignedMs });
    void execute(execution, contextOf(execution)).then((outcome) => this.#conclude(execution, outcome));
  }

  /** Once for each attempt: frees its slot and hands its outcome on. */
  #conclude(execution: Execution, ended: AttemptOutcome): void {
    if (execution.isConcluded) return;
    const outcome = ownEndFirst(execution, ended);
    this.#leave(execution);
    this.#ahead.onEnded(execution.elapsedMs);
    this.#backlog.added();
    if (!this.#completer.finish(execution, outcome)) void this.#settle(this.#completer.end(execution, outcome));
    this.#fillFromLine();
    this.#producer.pumpSoon();
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
    this.#backlog.written();
    this.#fillFromLine();
    if (this.#options.hasCaps()) this.#producer.wake();
    else this.#producer.pumpSoon();
    this.#settling.changed();
  }

  #leave(execution: Execution): void {
    execution.isConcluded = true;
    this.running.delete(execution.job.leaseSeq);
    this.begun.delete(execution.job.leaseSeq);
    this.#settling.changed();
  }

  readonly #asking = { onError: (error: unknown) => this.#report(error), isStopped: () => this.#isStopped };

  readonly #report = (error: unknown): void => {
    this.#options.events.emit('error', { error, where: 'worker' });
  };

  /** No handler runs, nothing is about to, and every outcome is written. */
  #isSettled(): boolean {
    const jobs = this.running.size + this.#fresh.length + this.#ahead.length + this.#starter.jobs + this.#ending;
    return jobs === 0 && this.#completer.isIdle && this.#producer.isIdle;
  }
}
