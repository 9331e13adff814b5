import type { Outcome } from '../../core/decide.ts';
import type { Payload } from '../../core/payload.ts';
import { checkLanded, type SettledJob, settleJobs } from '../../ledger/attempts/settle-jobs.ts';
import type { Lease } from '../../ledger/attempts/start-jobs.ts';
import { type Batcher, createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import type { Claims } from './claims.ts';
import type { Execution } from './execution.ts';
import type { AttemptOutcome } from './executor.ts';
import { type Finished, Finisher } from './finisher.ts';
import { Persister, StoppedError } from './persister.ts';
import { settlement } from './settler.ts';

export type CompleterOptions = {
  database: Database;
  workerId: number;
  claims: Claims;
  events: EventHub;
  /** Whether jobs wait in line here. */
  hasLine(): boolean;
  /** Resolves when the ledger has the start of an attempt; with false if the job is not this worker's any more. */
  ensureStarted(execution: Execution): Promise<boolean>;
  onReleased(): void;
  /** Successes were written. */
  onWritten(): void;
  /** Something is to be staged sooner than the stager knows. */
  onDelayed(delayMs: number): void;
};

/** `stopped`: it landed, as a cancelled job instead of one that is tried again. */
type Landing = 'landed' | 'stopped' | 'lost';
/** `held`: another transaction has locked the job, and nothing was written. */
type Answer = Landing | 'held';

const MAX_PER_STATEMENT = 500;

/** Writes how attempts ended: plain successes with one statement, everything else with another, each many jobs at a time. */
export class Completer {
  readonly #options: CompleterOptions;
  readonly #batcher: Batcher<SettledJob, Answer>;
  readonly #finisher: Finisher;
  readonly #persister: Persister;
  /** Results that the database refused, on their way to it in other words. */
  #reworded = 0;
  /** Outcomes other than plain successes whose job another transaction holds. */
  #held = 0;

  constructor(options: CompleterOptions) {
    this.#options = options;
    this.#persister = new Persister((error) => options.events.emit('error', { error, where: 'completer' }));
    this.#batcher = createBatcher<SettledJob, Answer>({
      send: (rows) => this.#settle(rows),
      maxItems: MAX_PER_STATEMENT,
      lengthOf: ({ result, resultBytes, failure }) =>
        (result?.length ?? 0) + (resultBytes?.byteLength ?? 0) + (failure?.length ?? 0),
      maxInFlight: 1,
      maxWaiting: Number.POSITIVE_INFINITY,
      overflow: neverRefused,
    });
    this.#finisher = new Finisher({
      ...{
        database: options.database,
        workerId: options.workerId,
        claims: options.claims,
        onReleased: options.onReleased,
        hasLine: options.hasLine,
      },
      persister: this.#persister,
      landedBefore: (executions) => this.#landedBefore(executions.map(({ job }) => job)),
      onLanded: ({ execution, value }) => this.#completed(execution, value),
      onLost: (execution) => this.lost(execution),
      onRefused: (finished) => void this.#reword(finished),
      onError: (error) => this.#report(error),
      onWritten: options.onWritten,
    });
  }

  /** A plain success: hands it on and is done. Answers false where it takes more than that. */
  finish(execution: Execution, outcome: AttemptOutcome): boolean {
    if (outcome.kind !== 'succeeded' || outcome.output.kind !== 'json' || execution.joinsChildren) return false;
    // A start on its way comes first.
    if (!execution.hasStarted && execution.starting !== null) return false;
    const { text } = outcome.output;
    this.#finisher.add({ execution, result: text, value: outcome.value, ranMs: execution.elapsedMs });
    return true;
  }

  get isIdle(): boolean {
    return this.#finisher.isIdle && this.#reworded === 0;
  }

  /** Plain successes that the ledger has not confirmed. */
  get unwritten(): number {
    return this.#finisher.unwritten + this.#reworded;
  }

  /** Outcomes that wait for another transaction to let go of their job. */
  get held(): number {
    return this.#finisher.held + this.#held;
  }

  async end(execution: Execution, outcome: AttemptOutcome): Promise<void> {
    if (outcome.kind === 'lost' || !(await this.#hasStarted(execution))) return this.lost(execution);
    switch (outcome.kind) {
      case 'succeeded':
        return this.#succeed(execution, outcome.output, outcome.value);
      case 'completed_by_handler':
        return this.#confirmOwn(execution, outcome.otherwise);
      case 'cancelled':
      case 'failed':
        return this.#decide(execution, outcome);
    }
  }

  /** Gives a job back that this worker will not run to its end. Burns no attempt. */
  async giveBack(execution: Execution): Promise<void> {
    if (!(await this.#hasStarted(execution))) return this.lost(execution);
    return this.#decide(execution, { kind: 'released' });
  }

  #hasStarted(execution: Execution): boolean | Promise<boolean> {
    return execution.hasStarted || this.#options.ensureStarted(execution);
  }

  lost(execution: Execution): void {
    this.#options.claims.done(execution.claimNo, execution.job.leaseSeq);
    this.#options.events.emit('lost', execution.facts);
  }

  /** Gives up what the database has not taken: its lease ends by itself. Resolves when nothing is under way any more. */
  async stop(): Promise<void> {
    this.#persister.stop();
    this.#finisher.stop();
    await Promise.all([this.#batcher.idle(), this.#finisher.written]);
  }

  async #succeed(execution: Execution, output: Payload, value: unknown): Promise<void> {
    let landing: Landing;
    try {
      landing = await this.#land(successRow(execution, output));
    } catch (error) {
      if (error instanceof StoppedError) throw error;
      return this.#decide(execution, NOT_STORED);
    }
    if (landing === 'lost') this.lost(execution);
    else this.#completed(execution, value);
  }

  /** By itself and by another statement, which needs the start to be written; what is refused then has failed. */
  async #reword({ execution, result, value }: Finished): Promise<void> {
    this.#reworded++;
    const outcome = { kind: 'succeeded', output: { kind: 'json', text: result }, value } as const;
    await this.end(execution, outcome).catch((error) => this.#report(error));
    this.#reworded--;
    this.#options.onWritten();
  }

  #completed(execution: Execution, output: unknown): void {
    this.#options.claims.done(execution.claimNo, execution.job.leaseSeq);
    if (this.#options.events.hears('completed')) this.#options.events.emit('completed', { ...execution.facts, output });
  }

  /** One that did not land may have landed before, when the answer was lost. */
  async #confirmed(jobs: readonly Lease[], landed: ReadonlySet<number>): Promise<boolean[]> {
    const missing = jobs.filter((job) => !landed.has(job.leaseSeq));
    const before = missing.length === 0 ? new Set() : await this.#landedBefore(missing);
    return jobs.map((job) => landed.has(job.leaseSeq) || before.has(job.leaseSeq));
  }

  #landedBefore(jobs: readonly Lease[]): Promise<Set<number>> {
    return this.#persister.write(() => checkLanded(this.#options.database.workers, jobs));
  }

  async #confirmOwn(execution: Execution, otherwise: AttemptOutcome): Promise<void> {
    const landed = await this.#landedBefore([execution.job]);
    if (landed.has(execution.job.leaseSeq)) this.#completed(execution, undefined);
    else await this.end(execution, otherwise);
  }

  async #decide(execution: Execution, outcome: Outcome): Promise<void> {
    const { row, decision, landing } = await this.#settled(execution, outcome);
    if (landing === 'lost') return this.lost(execution);
    this.#options.claims.done(execution.claimNo, execution.job.leaseSeq);
    if (row.to === 'cancelled' || landing === 'stopped') {
      this.#options.events.emit('cancelled', execution.facts);
    } else if (decision.failure !== undefined) {
      this.#options.events.emit('failed', {
        ...execution.facts,
        state: row.to,
        failure: decision.failure,
        delayMs: row.delayMs,
      });
    }
    if (row.to === 'retrying' && landing !== 'stopped') this.#options.onDelayed(row.delayMs ?? 0);
  }

  /** What the database refuses is told in plainer words, and again from time to time: nobody else can end the attempt. */
  async #settled(execution: Execution, outcome: Outcome) {
    const { job, policy, registered } = execution;
    let words = outcome;
    for (let refusals = 0; ; refusals++) {
      const settled = settlement({ job, policy, outcome: words, elapsedMs: execution.elapsedMs, registered });
      try {
        return { ...settled, landing: await this.#land(settled.row) };
      } catch (error) {
        if (this.#persister.isStopped) throw error;
        if (words.kind === 'failed') words = NOT_STORED;
        await this.#persister.pause(refusals, { isLong: true });
      }
    }
  }

  /** Until the ledger takes it: a job that another transaction holds is tried again, apart from the others. */
  async #land(row: SettledJob): Promise<Landing> {
    for (let tries = 0; ; tries++) {
      const answer = await this.#batcher.add(row);
      if (answer !== 'held') return answer;
      if (this.#persister.isStopped) throw new StoppedError();
      this.#held++;
      await this.#persister.pause(tries);
      this.#held--;
    }
  }

  async #settle(rows: SettledJob[]): Promise<(Answer | Error)[]> {
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
    await this.#persister.writeInParts(sorted, { send, refuse }).finally(() => claims.reopen(closedClaims));
    const confirmed = await this.#confirmed(rows, new Set([...landed, ...held]));
    return rows.map(({ leaseSeq }, index) => {
      if (held.has(leaseSeq)) return 'held';
      if (stopped.has(leaseSeq)) return 'stopped';
      return confirmed[index] ? 'landed' : (refused.get(leaseSeq) ?? 'lost');
    });
  }

  #report(error: unknown): void {
    this.#options.events.emit('error', { error, where: 'finisher' });
  }
}

/** The attempt came to an end that the ledger has no place for: it counts as one that failed. */
const NOT_STORED: Outcome = {
  kind: 'failed',
  failure: {
    category: 'SYSTEM',
    code: 'OUTCOME_NOT_STORED',
    message: 'the database refused what the handler left; its log says why',
  },
};

const neverRefused = () => new Error('an attempt that ended is never refused');

function successRow({ job, joinsChildren }: Execution, output: Payload): SettledJob {
  return {
    ...{ orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq, to: 'completed', reason: 'succeeded' },
    result: output.kind === 'json' ? output.text : null,
    resultBytes: output.kind === 'bytes' ? output.bytes : null,
    ...{ delayMs: null, failure: null, holds: joinsChildren, refundsAttempt: false },
  };
}
