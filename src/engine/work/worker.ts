import type { StartedJob } from '../../ledger/attempts/claim-and-start.ts';
import type { Lease } from '../../ledger/attempts/start-jobs.ts';
import { claimStatementsOf, leaseAheadStatements } from './claim-statements.ts';
import { Claims, returnUnknownJobs } from './claims.ts';
import { DeadlineTimer } from './deadline-timer.ts';
import { execute, type HandlerOutcome, preferOwnCompletion } from './executor.ts';
import { IdleWait } from './idle-wait.ts';
import { LateStarts } from './late-starts.ts';
import { LeasedAhead } from './leased-ahead.ts';
import { OutcomeWriter } from './outcome-writer.ts';
import { Producer } from './producer.ts';
import type { Claim, Wake } from './producer-options.ts';
import { QueueReserve } from './queue-reserve.ts';
import { readUnknown, runnableOf } from './runnable.ts';
import { RunningAttempt } from './running-attempt.ts';
import { type LeasedJob, lateAttempt, Starter, startedAttempt } from './starter.ts';
import { LateStartLeases } from './thread-memory.ts';
import type { WorkerOptions } from './worker-options.ts';

const LAST_WRITES_MS = 10_000;

/** Runs the jobs of one crew: claims them, calls their handlers in its slots and has their outcomes written. */
export class Worker {
  readonly running = new Map<number, RunningAttempt>();
  readonly lateStartLeases: LateStartLeases;
  readonly #options: WorkerOptions;
  readonly #claims: Claims;
  readonly #queueReserve: QueueReserve;
  readonly #producer: Producer;
  readonly #outcomes: OutcomeWriter;
  readonly #starter: Starter;
  readonly #lateStarts: LateStarts;
  readonly #leasedAhead: LeasedAhead;
  /** Attempts that a claim started. Their handlers are called once the next claim is sent. */
  #claimed: RunningAttempt[] = [];
  readonly #idleWait = new IdleWait(() => this.#isIdle());
  readonly #deadlines = new DeadlineTimer({
    running: this.running,
    onTick: (nowMs) => this.#leasedAhead.returnOverdue(nowMs),
    onLateStart: (attempt) => void this.ensureStarted(attempt),
    onDeadline: (attempt, outcome) => this.#conclude(attempt, outcome),
  });
  #isStopped = false;
  /** From now on, jobs that start are returned immediately. */
  #isClosing = false;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.lateStartLeases = new LateStartLeases(options.slots);
    this.#claims = new Claims({ ...options, onEnded: (queue) => this.#producer.ended(queue) });
    this.#queueReserve = new QueueReserve(options.slots, this.#claims);
    this.#queueReserve.set(options.queues, options.reservedShares());
    const types = options.registry.types();
    this.#outcomes = new OutcomeWriter({
      ...options,
      claims: this.#claims,
      hasLeasedAhead: () => this.#leasedAhead.length > 0,
      ensureStarted: (attempt) => this.ensureStarted(attempt),
      onWritten: () => this.#onWritten(),
    });
    this.#lateStarts = new LateStarts(options);
    this.#starter = new Starter({
      ...options,
      onStarted: (leased, start) => this.#admit(startedAttempt(leased, start)),
      onGone: (leased) => this.#forget(leased),
      onReturned: (leased) => this.#forget(leased, { isReady: true }),
    });
    this.#leasedAhead = new LeasedAhead({
      ...options,
      slots: options.startsApart ? 0 : options.slots,
      claims: this.#claims,
      queueReserve: this.#queueReserve,
      starter: this.#starter,
      runLate: (leased) => this.#run(lateAttempt(leased)),
      onGone: (leased) => this.#forget(leased),
    });
    this.#producer = new Producer({
      ...options,
      claims: this.#claims,
      types,
      claim: claimStatementsOf({ ...options, types, orgsOfTypes: options.registry.orgsOfTypes() }),
      leaseAhead: leaseAheadStatements(options.database),
      leasedAhead: this.#leasedAhead,
      queueReserve: this.#queueReserve,
      busySlots: () => this.#busySlots(),
      onClaimed: (jobs, claim) => this.#onClaimed(jobs, claim),
      runClaimed: () => this.#runClaimed(),
      reconcile: () => returnUnknownJobs({ ...options, claims: this.#claims }),
    });
  }

  start(): void {
    this.#deadlines.start();
    if (!this.#options.startsApart) this.#options.producers.add(this.#producer);
    this.wake();
  }

  get id(): number {
    return this.#options.workerId;
  }

  /** There may be work: claim now. */
  wake(how?: Wake): void {
    this.#producer.wake(how);
  }

  /** Claims from these queues from now on. */
  serve(queues: readonly string[]): void {
    this.#queueReserve.set(queues, this.#options.reservedShares());
    this.#producer.serve(queues);
  }

  /**
   * Stops claiming, lets handlers finish for `graceMs`, then returns the remaining jobs. If the database does not accept the last writes in
   * time, a rescuer takes over those jobs: a process that must end cannot wait for a database that is down.
   */
  async drain(graceMs: number): Promise<void> {
    this.#options.producers.remove(this.#producer);
    this.#producer.drain();
    this.#starter.stop();
    this.#leasedAhead.stop();
    await this.#idleWait.within(graceMs);
    this.#isClosing = true;
    for (const attempt of [...this.running.values()]) this.#return(attempt);
    await this.#idleWait.within(this.#options.lastWritesMs ?? LAST_WRITES_MS);
    this.#isStopped = true;
    this.#starter.close();
    this.#lateStarts.close();
    await this.#outcomes.stop();
    this.#deadlines.stop();
  }

  /** The ledger gave these leases to another worker. */
  lose(leaseSeqs: Iterable<number>): void {
    for (const leaseSeq of leaseSeqs) {
      const attempt = this.running.get(leaseSeq);
      attempt?.abort('lost_lease');
      if (attempt === undefined) this.#leasedAhead.lose(leaseSeq);
      else this.#conclude(attempt, { kind: 'lost' });
    }
  }

  /**
   * No heartbeat got through for so long that the lease may expire: stops the handler before it does. If the next beat is in time, the job
   * stays with this worker, so it must return the job once the ledger responds.
   */
  stopAndReturn(leaseSeq: number): void {
    const attempt = this.running.get(leaseSeq);
    if (attempt !== undefined) this.#return(attempt);
  }

  /** The ledger declared this worker dead. Its claims stay open, because a rescuer finds its jobs through them. */
  abandon(): void {
    this.#options.producers.remove(this.#producer);
    this.#starter.stop();
    this.#isClosing = true;
    this.#leasedAhead.abandon();
    for (const attempt of this.running.values()) {
      attempt.abort('lost_lease');
      this.#leave(attempt);
      this.#options.events.emit('lost', attempt.facts);
    }
  }

  /** Both kinds of request abort the signal. A forced one also ends the attempt after a grace. */
  cancel(leaseSeq: number, force: boolean): void {
    const attempt = this.running.get(leaseSeq);
    if (attempt === undefined) this.#leasedAhead.cancel(leaseSeq);
    else attempt.requestCancel(force);
  }

  /** Every lease that this worker has and did not return. */
  leases(): Lease[] {
    const held = [...this.running.values(), ...this.#leasedAhead.all()];
    return held.map(({ job: { orgId, seq, leaseSeq } }) => ({ orgId, seq, leaseSeq }));
  }

  /** Resolves when the ledger has the start of the attempt, or with false if this worker has lost the job. */
  async ensureStarted(attempt: RunningAttempt): Promise<boolean> {
    const hasStarted = await this.#lateStarts.ensure(attempt);
    if (!hasStarted) this.lose([attempt.job.leaseSeq]);
    return hasStarted;
  }

  async #onClaimed(jobs: readonly StartedJob[], { claimNo, sentMs, isAhead }: Claim): Promise<void> {
    if (jobs.length === 0) return;
    this.#claims.open(claimNo, jobs);
    const reading = readUnknown(jobs, { ...this.#options, isStopped: () => this.#isStopped });
    const known = reading instanceof Promise ? await reading : reading;
    if (this.#isStopped) return;
    const leased: LeasedJob[] = [];
    for (const job of jobs) {
      const { policy, registered } = runnableOf(job, known);
      if (this.#options.startsApart || isAhead) leased.push({ job, policy, registered, claimNo, claimedMs: sentMs });
      else this.#claimed.push(new RunningAttempt({ job, policy, registered, claimNo, startedMs: sentMs }));
    }
    // Every policy is known now, and a lease shorter than any before makes the heartbeat faster.
    this.#options.onStarted(jobs);
    if (isAhead) this.#leasedAhead.push(leased);
    else this.#starter.add(leased);
  }

  /** The job did not start here and this worker has lost its lease. `isReady`: it is back in its queue. */
  #forget({ claimNo, job }: LeasedJob, { isReady = false } = {}): void {
    this.#claims.done(claimNo, job.leaseSeq);
    if (isReady) this.#options.onDelayed(0);
    this.#producer.pumpSoon();
    this.#outcomes.onWritten();
  }

  #runClaimed(): void {
    for (const attempt of this.#claimed.splice(0)) this.#admit(attempt);
    this.#runLeasedAhead();
  }

  #runLeasedAhead(): void {
    if (this.#leasedAhead.length > 0) this.#leasedAhead.fill(this.#options.slots - this.#busySlots() - this.#producer.slotsForLook);
  }

  /** Slots of running handlers, of jobs about to start, and of outcomes that cannot be written. */
  #busySlots(): number {
    return this.running.size + this.#claimed.length + this.#starter.starting + this.#outcomes.blockedSlots;
  }

  #admit(attempt: RunningAttempt): void {
    if (this.#isClosing) this.#return(attempt);
    else this.#run(attempt);
  }

  #run(attempt: RunningAttempt): void {
    const { events, contextOf, maxResultBytes } = this.#options;
    this.running.set(attempt.job.leaseSeq, attempt);
    if (!attempt.hasStarted) this.lateStartLeases.add(attempt.job.leaseSeq);
    attempt.calledMs = performance.now();
    attempt.deadlineMs = attempt.startedMs + attempt.timeLimitMs;
    if (events.hasListeners('started', attempt.job.jobType)) events.emit('started', { ...attempt.facts, assignedMs: attempt.assignedMs });
    void execute(attempt, contextOf(attempt), maxResultBytes).then((outcome) => this.#conclude(attempt, outcome));
  }

  /** Happens once for each attempt: frees its slot and passes its outcome on. */
  #conclude(attempt: RunningAttempt, ended: HandlerOutcome): void {
    if (attempt.isConcluded) return;
    const outcome = preferOwnCompletion(attempt, ended);
    this.#leave(attempt);
    this.#leasedAhead.onEnded(attempt.handlerMs);
    this.#outcomes.write(attempt, outcome);
    this.#runLeasedAhead();
    this.#producer.pumpSoon();
  }

  #return(attempt: RunningAttempt): void {
    if (attempt.isConcluded) return;
    attempt.abort('lost_lease');
    this.#leave(attempt);
    this.#outcomes.return(attempt);
  }

  /** An outcome that is written may have made room under a cap. */
  #onWritten(): void {
    this.#runLeasedAhead();
    if (this.#options.hasCaps()) this.#producer.wake();
    else this.#producer.pumpSoon();
    this.#idleWait.changed();
  }

  #leave(attempt: RunningAttempt): void {
    attempt.isConcluded = true;
    this.running.delete(attempt.job.leaseSeq);
    this.#claims.vacate(attempt.job.leaseSeq);
    this.lateStartLeases.delete(attempt.job.leaseSeq);
    this.#idleWait.changed();
  }

  /** No handler runs or is about to run, and every outcome is written. */
  #isIdle(): boolean {
    const jobs = this.running.size + this.#claimed.length + this.#leasedAhead.length + this.#starter.jobs;
    return jobs === 0 && this.#outcomes.isIdle && this.#producer.isIdle;
  }
}
