import type { Outcome } from '../core/decide.ts';
import type { Payload } from '../core/payload.ts';
import { type Batcher, createBatcher } from '../ledger/batcher.ts';
import type { Database } from '../ledger/database.ts';
import { checkLanded, type SettledJob, settleJobs } from '../ledger/settle-jobs.ts';
import type { Lease } from '../ledger/start-jobs.ts';
import { isUnavailable } from '../ledger/statement.ts';
import type { Claims } from './claims.ts';
import type { EventHub } from './events.ts';
import type { Execution } from './execution.ts';
import type { AttemptOutcome } from './executor.ts';
import { Finisher } from './finisher.ts';
import { settlement } from './settler.ts';

export type CompleterOptions = {
  database: Database;
  workerId: number;
  claims: Claims;
  events: EventHub;
  onReleased(): void;
  /** Successes were written. */
  onWritten(): void;
  /** Something is to be staged sooner than the stager knows. */
  onDelayed(delayMs: number): void;
};

const MAX_PER_STATEMENT = 500;
const MAX_DELAY_MS = 2_000;

/** Writes how attempts ended: plain successes with one statement, everything else with another, each many jobs at a time. */
export class Completer {
  readonly #options: CompleterOptions;
  readonly #batcher: Batcher<SettledJob, boolean>;
  readonly #finisher: Finisher;

  constructor(options: CompleterOptions) {
    this.#options = options;
    this.#batcher = createBatcher<SettledJob, boolean>({
      send: (rows) => this.#settle(rows),
      maxItems: MAX_PER_STATEMENT,
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
      },
      persist: (write) => this.#persist(write),
      landedBefore: (executions) => this.#landedBefore(executions.map(({ job }) => job)),
      onLanded: ({ execution, value }) => this.#completed(execution, value),
      onLost: (execution) => this.lost(execution),
      onError: (error) => options.events.emit('error', { error, where: 'finisher' }),
      onWritten: options.onWritten,
    });
  }

  /** A plain success: hands it on and is done. Answers false where it takes more than that. */
  finish(execution: Execution, outcome: AttemptOutcome): boolean {
    if (outcome.kind !== 'succeeded' || outcome.output.kind !== 'json' || execution.joinsChildren) return false;
    this.#finisher.add({ execution, result: outcome.output.text, value: outcome.value });
    return true;
  }

  get isIdle(): boolean {
    return this.#finisher.isIdle;
  }

  async end(execution: Execution, outcome: AttemptOutcome): Promise<void> {
    switch (outcome.kind) {
      case 'succeeded':
        return this.#succeed(execution, outcome.output, outcome.value);
      case 'completed_by_handler':
        return this.#confirmOwn(execution, outcome.otherwise);
      case 'lost':
        return this.lost(execution);
      case 'cancelled':
      case 'failed':
        return this.#decide(execution, outcome);
    }
  }

  /** Gives a job back that this worker will not run to its end. Burns no attempt. */
  giveBack(execution: Execution): Promise<void> {
    return this.#decide(execution, { kind: 'released' });
  }

  lost(execution: Execution): void {
    this.#options.claims.done(execution.claimNo, execution.job.leaseSeq);
    this.#options.events.emit('lost', execution.facts);
  }

  idle(): Promise<void> {
    return this.#batcher.idle();
  }

  async #succeed(execution: Execution, output: Payload, value: unknown): Promise<void> {
    const landed = await this.#batcher.add(successRow(execution, output));
    if (landed) this.#completed(execution, value);
    else this.lost(execution);
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
    return this.#persist(() => checkLanded(this.#options.database.workers, jobs));
  }

  async #confirmOwn(execution: Execution, otherwise: AttemptOutcome): Promise<void> {
    const landed = await this.#landedBefore([execution.job]);
    if (landed.has(execution.job.leaseSeq)) this.#completed(execution, undefined);
    else await this.end(execution, otherwise);
  }

  async #decide(execution: Execution, outcome: Outcome): Promise<void> {
    const { job, policy, registered, elapsedMs } = execution;
    const { row, decision } = settlement({ job, policy, outcome, elapsedMs, registered });
    const landed = await this.#batcher.add(row);
    if (!landed) return this.lost(execution);
    this.#options.claims.done(execution.claimNo, execution.job.leaseSeq);
    if (row.to === 'cancelled') {
      this.#options.events.emit('cancelled', execution.facts);
    } else if (decision.failure !== undefined) {
      this.#options.events.emit('failed', {
        ...execution.facts,
        state: row.to,
        failure: decision.failure,
        delayMs: row.delayMs,
      });
    }
    if (row.to === 'retrying') this.#options.onDelayed(row.delayMs ?? 0);
  }

  async #settle(rows: SettledJob[]): Promise<boolean[]> {
    const sorted = rows.toSorted((a, b) => a.seq - b.seq);
    const { database, workerId } = this.#options;
    const { landed, released } = await this.#persist(() =>
      settleJobs(database.workers, { workerId, jobs: sorted, by: 'lease', closedClaims: [] }),
    );
    if (released) this.#options.onReleased();
    return this.#confirmed(rows, landed);
  }

  /** An outcome is kept until the database takes it or the lease is gone: the database being away loses nothing. */
  async #persist<T>(write: () => Promise<T>): Promise<T> {
    for (let failures = 0; ; failures++) {
      try {
        return await write();
      } catch (error) {
        this.#options.events.emit('error', { error, where: 'completer' });
        if (!isUnavailable(error) && failures >= 3) throw error;
        await new Promise((resolve) =>
          setTimeout(resolve, Math.random() * Math.min(MAX_DELAY_MS, 50 * 2 ** Math.min(failures, 8))),
        );
      }
    }
  }
}

const neverRefused = () => new Error('an attempt that ended is never refused');

function successRow({ job, joinsChildren }: Execution, output: Payload): SettledJob {
  return {
    ...{ orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq, to: 'completed', reason: 'succeeded' },
    result: output.kind === 'json' ? output.text : null,
    resultBytes: output.kind === 'bytes' ? output.bytes : null,
    ...{ delayMs: null, failure: null, holds: joinsChildren, refundsAttempt: false },
  };
}
