import { boundFields, boundText } from '../../core/bounded-text.ts';
import { AppError } from '../../core/errors.ts';
import { JobCancelledError, LeaseLostError } from '../../core/failure.ts';
import { attemptIdOf } from '../../core/ids.ts';
import { encodeOutput } from '../../core/payload.ts';
import type { Submission } from '../../core/submission.ts';
import { FIELD_LIMITS } from '../../core/submission-fields.ts';
import {
  assertOwned,
  type FencedAnswer,
  loadCheckpoint,
  reportProgress,
  saveCheckpoint,
} from '../../ledger/attempts/fenced-writes.ts';
import { settleJobs } from '../../ledger/attempts/settle-jobs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { currentTransaction, isNeverSent, OwnedTransaction } from '../../ledger/driver/owned-transaction.ts';
import { isContended, type Queryable } from '../../ledger/driver/statement.ts';
import type { EventHub } from '../events.ts';
import { decodeCheckpoint, encodeCheckpoint } from './checkpoint-format.ts';
import type { Execution } from './execution.ts';
import type { JobContext, LogLevel, SpawnOptions } from './job-context.ts';

export type SpawnRequest = {
  submission: Submission;
  join: boolean;
  /** The transaction that holds the parent, if one does. */
  transaction: OwnedTransaction | null;
};

export type ContextServices = {
  database: Database;
  events: EventHub;
  workerId(): number;
  /** Resolves when the ledger has the start of the attempt; with false if the job is not this worker's any more. */
  ensureStarted(execution: Execution): Promise<boolean>;
  /** Null: the transaction that the request names has ended, and nothing was written. */
  spawn(execution: Execution, request: SpawnRequest): Promise<string | null>;
};

/** How long a write of a handler waits for another transaction that holds the job. */
const PATIENCE_MS = 6_000;
const MAX_PAUSE_MS = 200;

const COMPLETED =
  'completeIn has completed the job in this transaction. Report progress, save checkpoints and spawn jobs before it.';

/** The context of one attempt. Values are read when asked for: most handlers look at few of them. */
export class HandlerContext implements JobContext {
  readonly #execution: Execution;
  readonly #services: ContextServices;
  /** The handler's transaction that holds the job; it may have ended since. */
  #transaction: OwnedTransaction | null = null;

  constructor(execution: Execution, services: ContextServices) {
    this.#execution = execution;
    this.#services = services;
  }

  get jobId(): string {
    return this.#execution.job.id;
  }
  get type(): string {
    return this.#execution.job.jobType;
  }
  get attempt(): number {
    return this.#execution.job.attemptsStarted;
  }
  get createdAt(): Date {
    return new Date(this.#execution.job.createdAtMs);
  }
  get correlationId(): string {
    const { correlationId, id } = this.#execution.job;
    return correlationId ?? id;
  }
  get traceparent(): string | null {
    return this.#execution.job.traceparent;
  }
  get tags(): Readonly<Record<string, string>> {
    return this.#execution.job.tags ?? {};
  }
  get startedAt(): Date {
    return new Date(Date.now() + this.#execution.startedMs - performance.now());
  }
  get deadline(): Date {
    const { startedMs, timeLimitMs } = this.#execution;
    return new Date(Date.now() + startedMs + timeLimitMs - performance.now());
  }
  get isCancelled(): boolean {
    return this.#execution.isCancelRequested;
  }
  get signal(): AbortSignal {
    return this.#execution.signal;
  }
  get attemptId(): string {
    return attemptIdOf(this.jobId, this.#execution.job.leaseSeq);
  }
  get previousAttemptId(): string | null {
    const { previousLeaseSeq } = this.#execution.job;
    return previousLeaseSeq === 0 ? null : attemptIdOf(this.jobId, previousLeaseSeq);
  }
  get idempotencyKey(): string {
    const { job } = this.#execution;
    return job.idempotencyKey ?? `${job.jobType}:${job.orgId}:${job.id}`;
  }
  get leaseToken(): number {
    return this.#execution.job.leaseSeq;
  }

  async reportProgress(percent: number, message?: string): Promise<void> {
    if (!(percent >= 0 && percent <= 100)) {
      throw new AppError('INVALID_REQUEST', { message: `Progress is a number from 0 to 100, not ${percent}.` });
    }
    const text = message == null ? null : boundText(message, FIELD_LIMITS.progressMessageBytes);
    await this.#begin();
    const report = { ...leaseOf(this.#execution), percent: Math.round(percent), message: text };
    this.#answer(await this.#inPlace((db, transactionId) => reportProgress(db, report, transactionId)));
    this.#services.events.emit('progress', { ...this.#execution.facts, percent: report.percent, message: text });
  }

  async checkpoint(state: unknown): Promise<void> {
    const saved = { ...leaseOf(this.#execution), state: encodeCheckpoint(state) };
    await this.#begin();
    this.#answer(await this.#inPlace((db, transactionId) => saveCheckpoint(db, saved, transactionId)));
  }

  async lastCheckpoint<T = unknown>(): Promise<T | null> {
    const { orgId, seq } = this.#execution.job;
    const load = (db: Queryable, transactionId: string | null) => loadCheckpoint(db, { orgId, seq }, transactionId);
    const { checkpoint } = await this.#inPlace(load);
    return checkpoint === null ? null : (decodeCheckpoint(checkpoint.state) as T);
  }

  async spawn(submission: Submission, options: SpawnOptions = {}): Promise<string> {
    const join = options.join ?? this.#execution.registered.fanIn;
    const spawnIn = async (transaction: OwnedTransaction | null) => {
      const id = await this.#services.spawn(this.#execution, { submission, join, transaction });
      return id === null ? { id: '', transactionEnded: true as const } : { id };
    };
    try {
      await this.#begin();
      const own = await this.#inTransaction(spawnIn);
      return (own ?? (await patiently(() => spawnIn(null)))).id;
    } catch (error) {
      if (error instanceof LeaseLostError) this.#lose();
      throw error;
    }
  }

  log(level: LogLevel, message: string, fields: Record<string, unknown> = {}): void {
    if (!this.#services.events.hears('log')) return;
    const bounded = boundFields(fields, FIELD_LIMITS.logFieldsBytes);
    this.#services.events.emit('log', { ...this.#execution.facts, level, message, fields: bounded });
  }

  async assertOwned(client: Queryable): Promise<void> {
    await this.#begin();
    const transactionId = await assertOwned(client, leaseOf(this.#execution));
    if (transactionId === null) this.#lose(new LeaseLostError());
    this.#transaction = new OwnedTransaction(client, transactionId);
  }

  async completeIn(client: Queryable, result?: unknown): Promise<void> {
    await this.#begin();
    const encoded = encodeOutput(result);
    if (!encoded.ok)
      throw new AppError('NOT_SERIALIZABLE', { message: encoded.issue.message, details: [encoded.issue] });
    const { payload } = encoded;
    const { landed } = await settleJobs(client, {
      workerId: this.#services.workerId(),
      by: 'handler',
      closedClaims: [],
      jobs: [
        {
          ...leaseOf(this.#execution),
          to: 'completed',
          reason: 'succeeded',
          delayMs: null,
          failure: null,
          result: payload.kind === 'json' ? payload.text : null,
          resultBytes: payload.kind === 'bytes' ? payload.bytes : null,
          holds: this.#execution.joinsChildren,
          refundsAttempt: false,
        },
      ],
    });
    if (!landed.has(this.leaseToken)) this.#lose(new LeaseLostError());
    this.#execution.isCompletedByHandler = true;
    const transactionId = await currentTransaction(client);
    this.#transaction = transactionId === null ? null : new OwnedTransaction(client, transactionId, true);
  }

  /** The ledger takes nothing from an attempt before it has its start. */
  async #begin(): Promise<void> {
    if (this.#execution.hasStarted) return;
    if (this.#execution.isConcluded || !(await this.#services.ensureStarted(this.#execution))) {
      this.#lose(new LeaseLostError());
    }
  }

  /** Runs `work` in the handler's transaction while that is open, and otherwise on a connection of ours. */
  async #inPlace<Answer extends { transactionEnded?: true }>(
    work: (db: Queryable, transactionId: string | null) => Promise<Answer>,
  ): Promise<Answer> {
    const own = await this.#inTransaction((transaction) => work(transaction, transaction.id));
    return own ?? patiently(() => work(this.#services.database.workers, null));
  }

  /** Null: no transaction of the handler holds the job any more, and `work` did nothing. */
  async #inTransaction<Answer extends { transactionEnded?: true }>(
    work: (transaction: OwnedTransaction) => Promise<Answer>,
  ): Promise<Answer | null> {
    const transaction = this.#transaction;
    if (transaction === null) return null;
    if (transaction.isOpen) {
      const answer = await work(transaction).catch((error) => {
        if (isNeverSent(error)) return null;
        throw error;
      });
      if (answer !== null && answer.transactionEnded === undefined) return answer;
    }
    if (this.#transaction === transaction) this.#transaction = null;
    return null;
  }

  /** A write that did not land means that the attempt has lost the job. One that landed may report a cancellation. */
  #answer({ landed, cancelRequested }: FencedAnswer): void {
    if (!landed) this.#lose();
    if (cancelRequested === null) return;
    this.#execution.isCancelRequested = true;
    throw new JobCancelledError();
  }

  #lose(error?: LeaseLostError): never {
    const transaction = this.#transaction;
    if (transaction?.completesJob && transaction.isOpen) throw new AppError('INVALID_REQUEST', { message: COMPLETED });
    this.#execution.abort('lost_lease');
    throw error ?? this.#execution.abortError();
  }
}

/** Repeats what another transaction is in the way of, without a database session in between. */
async function patiently<T>(work: () => Promise<T>): Promise<T> {
  const startedMs = performance.now();
  for (let pauseMs = 10; ; pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2)) {
    try {
      return await work();
    } catch (error) {
      if (!isContended(error) || performance.now() - startedMs > PATIENCE_MS) throw error;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

function leaseOf({ job }: Execution): { orgId: string; seq: number; leaseSeq: number } {
  return { orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq };
}
