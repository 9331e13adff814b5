import type { Outcome } from '../../core/decide.ts';
import type { Payload } from '../../core/payload.ts';
import { checkLanded, type SettledJob, settleJobs } from '../../ledger/attempts/settle-jobs.ts';
import type { Lease } from '../../ledger/attempts/start-jobs.ts';
import { noteBatch } from '../../ledger/driver/batch-sizes.ts';
import { type Batcher, createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import type { Claims } from './claims.ts';
import { type Completion, CompletionWriter } from './completion-writer.ts';
import type { HandlerOutcome } from './executor.ts';
import { OutcomeBacklog } from './outcome-backlog.ts';
import { RetryingWriter, StoppedError } from './retrying-writer.ts';
import type { RunningAttempt } from './running-attempt.ts';
import { completedRow, settlement } from './settlement.ts';

export type OutcomeWriterOptions = {
  database: Database;
  workerId: number;
  claims: Claims;
  events: EventHub;
  /** Whether jobs that were leased ahead wait for a slot. */
  hasLeasedAhead(): boolean;
  /** Resolves when the ledger has the start of the attempt, or with false if this worker has lost the job. */
  ensureStarted(attempt: RunningAttempt): Promise<boolean>;
  onReleased(): void;
  /** The ledger accepted outcomes. */
  onWritten(): void;
  /** A job is due after `delayMs`, which may be sooner than the stager expects. */
  onDelayed(delayMs: number): void;
};

/** `stopped`: the write landed, but the job was cancelled instead of being retried. */
type Landing = 'landed' | 'stopped' | 'lost';
/** `held`: another transaction has locked the job, and nothing was written. */
type WriteResult = Landing | 'held';

const MAX_PER_STATEMENT = 500;

/** Writes how attempts ended. Plain successes go through the `CompletionWriter`, all other outcomes through a second statement. */
export class OutcomeWriter {
  readonly #options: OutcomeWriterOptions;
  readonly #batcher: Batcher<SettledJob, WriteResult>;
  readonly #completions: CompletionWriter;
  readonly #retrying: RetryingWriter;
  readonly #backlog = new OutcomeBacklog(() => ({
    outcomes: this.#completions.unwritten + this.#refused + this.#ending,
    held: this.#completions.held + this.#held,
  }));
  /** Attempts that end with another outcome than a plain success. */
  #ending = 0;
  /** Results that the database refused and that are now written by the other statement. */
  #refused = 0;
  /** Outcomes other than plain successes whose job another transaction holds. */
  #held = 0;

  constructor(options: OutcomeWriterOptions) {
    this.#options = options;
    this.#retrying = new RetryingWriter((error) => this.#report(error));
    this.#batcher = createBatcher<SettledJob, WriteResult>({
      send: (rows) => {
        noteBatch('settle', rows.length);
        return this.#settle(rows);
      },
      maxItems: MAX_PER_STATEMENT,
      lengthOf: ({ result, resultBytes, failure }) => (result?.length ?? 0) + (resultBytes?.byteLength ?? 0) + (failure?.length ?? 0),
      maxInFlight: 1,
      maxWaiting: Number.POSITIVE_INFINITY,
      overflow: neverRefused,
    });
    this.#completions = new CompletionWriter({
      ...options,
      retrying: this.#retrying,
      landedBefore: (attempts) => this.#landedBefore(attempts.map(({ job }) => job)),
      onLanded: ({ attempt, value }) => this.#completed(attempt, value),
      onLost: (attempt) => this.#lost(attempt),
      onRefused: (completion) => void this.#retryRefused(completion),
      onError: (error) => this.#report(error),
      onWritten: () => this.onWritten(),
    });
  }

  get isIdle(): boolean {
    return this.#completions.isIdle && this.#refused === 0 && this.#ending === 0;
  }

  /** Slots that stay occupied because outcomes cannot be written. */
  get blockedSlots(): number {
    return this.#backlog.slots;
  }

  write(attempt: RunningAttempt, outcome: HandlerOutcome): void {
    this.#backlog.added();
    if (!this.complete(attempt, outcome)) void this.#track(this.#end(attempt, outcome));
  }

  /** Returns a job to its queue that this worker will not finish. The attempt does not count. */
  return(attempt: RunningAttempt): void {
    void this.#track(this.#return(attempt));
  }

  /** Writes a plain success. Returns false, and does nothing, for any other outcome. */
  complete(attempt: RunningAttempt, outcome: HandlerOutcome): boolean {
    if (outcome.kind !== 'succeeded' || outcome.output.kind !== 'json' || attempt.joinsChildren) return false;
    // A start that is being written comes first.
    if (!attempt.hasStarted && attempt.starting !== null) return false;
    const { text } = outcome.output;
    this.#completions.add({ attempt, result: text, value: outcome.value, ranMs: attempt.elapsedMs });
    return true;
  }

  /** The ledger accepted a write of this worker. */
  onWritten(): void {
    this.#backlog.written();
    this.#options.onWritten();
  }

  /** Discards outcomes that the database has not accepted; their leases will expire. Resolves when no statement is in flight. */
  async stop(): Promise<void> {
    this.#retrying.stop();
    this.#completions.stop();
    await Promise.all([this.#batcher.idle(), this.#completions.written]);
  }

  async #track(ending: Promise<void>): Promise<void> {
    this.#ending++;
    await ending.catch((error) => this.#report(error));
    this.#ending--;
    this.onWritten();
  }

  async #end(attempt: RunningAttempt, outcome: HandlerOutcome): Promise<void> {
    if (outcome.kind === 'lost' || !(await this.#hasStarted(attempt))) return this.#lost(attempt);
    switch (outcome.kind) {
      case 'succeeded':
        return this.#succeed(attempt, outcome.output, outcome.value);
      case 'completed_by_handler':
        return this.#confirmCompletion(attempt, outcome.otherwise);
      case 'cancelled':
      case 'postponed':
      case 'failed':
        return this.#decide(attempt, outcome);
    }
  }

  async #return(attempt: RunningAttempt): Promise<void> {
    if (!(await this.#hasStarted(attempt))) return this.#lost(attempt);
    return this.#decide(attempt, { kind: 'released' });
  }

  #hasStarted(attempt: RunningAttempt): boolean | Promise<boolean> {
    return attempt.hasStarted || this.#options.ensureStarted(attempt);
  }

  #lost(attempt: RunningAttempt): void {
    this.#options.claims.done(attempt.claimNo, attempt.job.leaseSeq);
    this.#options.events.emit('lost', attempt.facts);
  }

  async #succeed(attempt: RunningAttempt, output: Payload, value: unknown): Promise<void> {
    let landing: Landing;
    try {
      landing = await this.#land(completedRow(attempt, output));
    } catch (error) {
      if (error instanceof StoppedError) throw error;
      return this.#decide(attempt, NOT_STORED);
    }
    if (landing === 'lost') this.#lost(attempt);
    else this.#completed(attempt, value);
  }

  /** Tries the other statement, which needs the start to be written. If the database refuses that too, the attempt has failed. */
  async #retryRefused({ attempt, result, value }: Completion): Promise<void> {
    this.#refused++;
    const outcome = { kind: 'succeeded', output: { kind: 'json', text: result }, value } as const;
    await this.#end(attempt, outcome).catch((error) => this.#report(error));
    this.#refused--;
    this.onWritten();
  }

  #completed(attempt: RunningAttempt, output: unknown): void {
    this.#options.claims.done(attempt.claimNo, attempt.job.leaseSeq);
    const { events } = this.#options;
    if (events.hasListeners('completed', attempt.job.jobType)) events.emit('completed', { ...attempt.facts, output });
  }

  /** A write that did not land may have landed before, if the response was lost. */
  async #confirmed(jobs: readonly Lease[], landed: ReadonlySet<number>): Promise<boolean[]> {
    const missing = jobs.filter((job) => !landed.has(job.leaseSeq));
    const before = missing.length === 0 ? new Set() : await this.#landedBefore(missing);
    return jobs.map((job) => landed.has(job.leaseSeq) || before.has(job.leaseSeq));
  }

  #landedBefore(jobs: readonly Lease[]): Promise<Set<number>> {
    return this.#retrying.write(() => checkLanded(this.#options.database.workers, jobs));
  }

  async #confirmCompletion(attempt: RunningAttempt, otherwise: HandlerOutcome): Promise<void> {
    const landed = await this.#landedBefore([attempt.job]);
    if (landed.has(attempt.job.leaseSeq)) this.#completed(attempt, undefined);
    else await this.#end(attempt, otherwise);
  }

  async #decide(attempt: RunningAttempt, outcome: Outcome): Promise<void> {
    const { row, decision, landing } = await this.#settled(attempt, outcome);
    if (landing === 'lost') return this.#lost(attempt);
    const { claims, events, onDelayed } = this.#options;
    claims.done(attempt.claimNo, attempt.job.leaseSeq);
    if (row.to === 'cancelled' || landing === 'stopped') {
      events.emit('cancelled', attempt.facts);
    } else if (decision.failure !== undefined) {
      const { to: state, delayMs } = row;
      events.emit('failed', { ...attempt.facts, state, failure: decision.failure, delayMs });
    } else {
      events.emit('postponed', { ...attempt.facts, delayMs: row.delayMs ?? 0 });
    }
    if (row.to === 'retrying' && landing !== 'stopped') onDelayed(row.delayMs ?? 0);
  }

  /** If the database refuses a failure, a simpler one is written instead, until it lands: no other process can end the attempt. */
  async #settled(attempt: RunningAttempt, outcome: Outcome) {
    const { job, policy, registered } = attempt;
    let written = outcome;
    for (let refusals = 0; ; refusals++) {
      const settled = settlement({ job, policy, outcome: written, elapsedMs: attempt.elapsedMs, registered });
      try {
        return { ...settled, landing: await this.#land(settled.row) };
      } catch (error) {
        if (this.#retrying.isStopped) throw error;
        if (written.kind === 'failed') written = NOT_STORED;
        await this.#retrying.pause(refusals, { isLong: true });
      }
    }
  }

  /** Retries while another transaction holds the job. The other outcomes do not wait for it. */
  async #land(row: SettledJob): Promise<Landing> {
    for (let tries = 0; ; tries++) {
      const result = await this.#batcher.add(row);
      if (result !== 'held') return result;
      if (this.#retrying.isStopped) throw new StoppedError();
      this.#held++;
      await this.#retrying.pause(tries);
      this.#held--;
    }
  }

  async #settle(rows: SettledJob[]): Promise<(WriteResult | Error)[]> {
    const { database, workerId, claims, onReleased } = this.#options;
    const landed = new Set<number>();
    const stopped = new Set<number>();
    const held = new Set<number>();
    const refused = new Map<number, Error>();
    let closedClaims = claims.takeClosed();
    const send = async (jobs: SettledJob[]): Promise<void> => {
      const settled = await settleJobs(database.workers, { workerId, jobs, by: 'lease', closedClaims });
      closedClaims = [];
      for (const leaseSeq of settled.landed) landed.add(leaseSeq);
      for (const leaseSeq of settled.stopped) stopped.add(leaseSeq);
      for (const leaseSeq of settled.held) held.add(leaseSeq);
      if (settled.released) onReleased();
    };
    const refuse = ({ leaseSeq }: SettledJob, error: unknown) => refused.set(leaseSeq, error as Error);
    const sorted = rows.toSorted((a, b) => a.seq - b.seq);
    await this.#retrying.writeInParts(sorted, { send, refuse }).finally(() => claims.reopen(closedClaims));
    const confirmed = await this.#confirmed(rows, new Set([...landed, ...held]));
    return rows.map(({ leaseSeq }, index) => {
      if (held.has(leaseSeq)) return 'held';
      if (stopped.has(leaseSeq)) return 'stopped';
      return confirmed[index] ? 'landed' : (refused.get(leaseSeq) ?? 'lost');
    });
  }

  #report(error: unknown): void {
    this.#options.events.emit('error', { error, where: 'outcome writer' });
  }
}

/** The database refuses to store how the attempt ended, so the attempt counts as failed. */
const NOT_STORED: Outcome = {
  kind: 'failed',
  failure: {
    category: 'SYSTEM',
    code: 'OUTCOME_NOT_STORED',
    message: 'the database refused to store the outcome; see the log of the database for the reason',
  },
};

const neverRefused = () => new Error('the queue of outcomes has no limit');
