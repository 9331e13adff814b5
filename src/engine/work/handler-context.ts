import { boundFields, boundText } from '../../core/bounded-text.ts';
import { isJoin, type JoinMode, joinModeOf } from '../../core/dependencies.ts';
import { AppError } from '../../core/errors.ts';
import { JobCancelledError, LeaseLostError } from '../../core/failure.ts';
import { attemptIdOf } from '../../core/ids.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import { encodeState, MAX_CHECKPOINT_BYTES } from '../../core/payload.ts';
import type { Submission } from '../../core/submission.ts';
import { FIELD_LIMITS } from '../../core/submission-fields.ts';
import { assertOwned, type FencedAnswer, loadCheckpoint, reportProgress, saveCheckpoint } from '../../ledger/attempts/fenced-writes.ts';
import { settleJobs } from '../../ledger/attempts/settle-jobs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { currentTransaction, isNeverSent, OwnedTransaction } from '../../ledger/driver/owned-transaction.ts';
import { requireTransaction } from '../../ledger/driver/require-transaction.ts';
import { isContended, type Queryable } from '../../ledger/driver/statement.ts';
import { toQueryable, type UserClient } from '../../ledger/driver/user-client.ts';
import type { EventHub } from '../events.ts';
import { encodeResult } from './encode-result.ts';
import type { JobContext, LogLevel, RelatedResult, ResultsOptions, SpawnOptions } from './job-context.ts';
import { readResults } from './related-results.ts';
import type { RunningAttempt } from './running-attempt.ts';
import { completedRow } from './settlement.ts';

export type SpawnRequest = {
  submission: Submission;
  join: JoinMode | null;
  /** The open transaction that holds the parent, if there is one. */
  transaction: OwnedTransaction | null;
};

export type ContextServices = {
  database: Database;
  events: EventHub;
  maxResultBytes: number;
  workerId(): number;
  /** Resolves when the ledger has the start of the attempt, or with false if this worker has lost the job. */
  ensureStarted(attempt: RunningAttempt): Promise<boolean>;
  /** Returns null, and writes nothing, if the transaction of the request has ended. */
  spawn(attempt: RunningAttempt, request: SpawnRequest): Promise<string | null>;
};

/** How long a write of a handler waits for another transaction that holds the job. */
const PATIENCE_MS = 6_000;
const MAX_PAUSE_MS = 200;

const SPAWN_OPTIONS = membersOf<SpawnOptions>({ join: true });

const JOIN = "join must be true, false, 'all' or 'settled'.";
const COMPLETED = 'completeIn has completed the job in this transaction. Report progress, save checkpoints and spawn jobs before it.';

/** The context of one attempt. Values are computed when they are read, because most handlers read few of them. */
export class HandlerContext implements JobContext {
  readonly #attempt: RunningAttempt;
  readonly #services: ContextServices;
  /** The handler's transaction that holds the job. It may have ended since. */
  #transaction: OwnedTransaction | null = null;

  constructor(attempt: RunningAttempt, services: ContextServices) {
    this.#attempt = attempt;
    this.#services = services;
  }

  get jobId(): string {
    return this.#attempt.job.id;
  }
  get type(): string {
    return this.#attempt.job.jobType;
  }
  get orgId(): string {
    return this.#attempt.job.orgId;
  }
  get projectId(): string | null {
    return this.#attempt.job.projectId;
  }
  get attempt(): number {
    return this.#attempt.job.attemptsStarted;
  }
  get createdAt(): Date {
    return new Date(this.#attempt.job.createdAtMs);
  }
  get correlationId(): string {
    const { correlationId, id } = this.#attempt.job;
    return correlationId ?? id;
  }
  get traceparent(): string | null {
    return this.#attempt.job.traceparent;
  }
  get tags(): Readonly<Record<string, string>> {
    return this.#attempt.job.tags ?? {};
  }
  get startedAt(): Date {
    return new Date(Date.now() + this.#attempt.startedMs - performance.now());
  }
  get deadline(): Date {
    const { startedMs, timeLimitMs } = this.#attempt;
    return new Date(Date.now() + startedMs + timeLimitMs - performance.now());
  }
  get isCancelled(): boolean {
    return this.#attempt.isCancelRequested;
  }
  get signal(): AbortSignal {
    return this.#attempt.signal;
  }
  get attemptId(): string {
    return attemptIdOf(this.jobId, this.#attempt.job.leaseSeq);
  }
  get previousAttemptId(): string | null {
    const { previousLeaseSeq } = this.#attempt.job;
    return previousLeaseSeq === 0 ? null : attemptIdOf(this.jobId, previousLeaseSeq);
  }
  get idempotencyKey(): string {
    const { job } = this.#attempt;
    return job.idempotencyKey ?? `${job.jobType}:${job.orgId}:${job.id}`;
  }
  get leaseToken(): number {
    return this.#attempt.job.leaseSeq;
  }

  async reportProgress(percent: number, message?: string): Promise<void> {
    if (!(percent >= 0 && percent <= 100)) {
      throw new AppError('INVALID_REQUEST', { message: `Progress must be a number from 0 to 100, not ${percent}.` });
    }
    if (message != null && typeof message !== 'string') {
      throw new AppError('INVALID_REQUEST', { message: `The message of a progress report must be a string, not ${typeof message}.` });
    }
    const text = message == null ? null : boundText(message, FIELD_LIMITS.progressMessageBytes);
    await this.#ensureStarted();
    const report = { ...leaseOf(this.#attempt), percent: Math.round(percent), message: text };
    this.#checkLanded(await this.#inPlace((db, transactionId) => reportProgress(db, report, transactionId)));
    this.#services.events.emit('progress', { ...this.#attempt.facts, percent: report.percent, message: text });
  }

  async checkpoint(state: unknown): Promise<void> {
    const saved = { ...leaseOf(this.#attempt), state: encodeCheckpoint(state) };
    await this.#ensureStarted();
    this.#checkLanded(await this.#inPlace((db, transactionId) => saveCheckpoint(db, saved, transactionId)));
  }

  async lastCheckpoint<T = unknown>(): Promise<T | null> {
    const { orgId, seq } = this.#attempt.job;
    const load = (db: Queryable, transactionId: string | null) => loadCheckpoint(db, { orgId, seq }, transactionId);
    const { checkpoint } = await this.#inPlace(load);
    return checkpoint === null ? null : (decodeCheckpoint(checkpoint.state) as T);
  }

  async spawn(submission: Submission, options: SpawnOptions = {}): Promise<string> {
    checkMembers(options, SPAWN_OPTIONS);
    if (options.join !== undefined && !isJoin(options.join)) throw new AppError('INVALID_REQUEST', { message: JOIN });
    const join = options.join === undefined ? this.#attempt.registered.fanIn : joinModeOf(options.join);
    const spawnIn = async (transaction: OwnedTransaction | null) => {
      const id = await this.#services.spawn(this.#attempt, { submission, join, transaction });
      return id === null ? { id: '', transactionEnded: true as const } : { id };
    };
    try {
      await this.#ensureStarted();
      const own = await this.#inTransaction(spawnIn);
      return (own ?? (await retryWhileHeld(() => spawnIn(null)))).id;
    } catch (error) {
      if (error instanceof LeaseLostError) this.#lose();
      throw error;
    }
  }

  async results<R = unknown>(options?: ResultsOptions): Promise<RelatedResult<R>[]> {
    return (await readResults(this.#services.database.workers, this.#attempt.job, options)) as RelatedResult<R>[];
  }

  log(level: LogLevel, message: string, fields: Record<string, unknown> = {}): void {
    if (!this.#services.events.hasListeners('log')) return;
    const bounded = boundFields(fields, FIELD_LIMITS.logFieldsBytes);
    this.#services.events.emit('log', { ...this.#attempt.facts, level, message, fields: bounded });
  }

  async assertOwned(given: UserClient): Promise<void> {
    const client = toQueryable(given);
    await requireTransaction(client);
    await this.#ensureStarted();
    const transactionId = await assertOwned(client, leaseOf(this.#attempt));
    if (transactionId === null) this.#lose(new LeaseLostError());
    this.#transaction = new OwnedTransaction(client, transactionId);
  }

  async completeIn(given: UserClient, result?: unknown): Promise<void> {
    const client = toQueryable(given);
    await requireTransaction(client);
    await this.#ensureStarted();
    const output = encodeResult(result, { maxBytes: this.#services.maxResultBytes });
    const { landed } = await settleJobs(client, {
      workerId: this.#services.workerId(),
      by: 'handler',
      closedClaims: [],
      jobs: [completedRow(this.#attempt, output)],
    });
    if (!landed.has(this.leaseToken)) this.#lose(new LeaseLostError());
    this.#attempt.isCompletedByHandler = true;
    const transactionId = await currentTransaction(client);
    this.#transaction = transactionId === null ? null : new OwnedTransaction(client, transactionId, true);
  }

  /** The ledger accepts no write from an attempt before its start. */
  async #ensureStarted(): Promise<void> {
    if (this.#attempt.hasStarted) return;
    if (this.#attempt.isConcluded || !(await this.#services.ensureStarted(this.#attempt))) {
      this.#lose(new LeaseLostError());
    }
  }

  /** Runs `work` in the handler's transaction while that is open, and otherwise on a connection of the pool. */
  async #inPlace<Result extends { transactionEnded?: true }>(
    work: (db: Queryable, transactionId: string | null) => Promise<Result>,
  ): Promise<Result> {
    const own = await this.#inTransaction((transaction) => work(transaction, transaction.id));
    return own ?? retryWhileHeld(() => work(this.#services.database.workers, null));
  }

  /** Returns null, and does nothing, if no transaction of the handler has locked the job. */
  async #inTransaction<Result extends { transactionEnded?: true }>(
    work: (transaction: OwnedTransaction) => Promise<Result>,
  ): Promise<Result | null> {
    const transaction = this.#transaction;
    if (transaction === null) return null;
    if (transaction.isOpen) {
      const result = await work(transaction).catch((error) => {
        if (isNeverSent(error)) return null;
        throw error;
      });
      if (result !== null && result.transactionEnded === undefined) return result;
    }
    if (this.#transaction === transaction) this.#transaction = null;
    return null;
  }

  /** A write that did not land means that this worker has lost the job. A write that landed may report a request to cancel it. */
  #checkLanded({ landed, cancelRequested }: FencedAnswer): void {
    if (!landed) this.#lose();
    if (cancelRequested === null) return;
    this.#attempt.requestCancel(cancelRequested === 'force');
    throw new JobCancelledError();
  }

  #lose(error?: LeaseLostError): never {
    const transaction = this.#transaction;
    if (transaction?.completesJob && transaction.isOpen) throw new AppError('INVALID_REQUEST', { message: COMPLETED });
    this.#attempt.abort('lost_lease');
    throw error ?? this.#attempt.abortError();
  }
}

/** Retries work that meets a lock of another transaction. It uses no database session while it waits. */
async function retryWhileHeld<T>(work: () => Promise<T>): Promise<T> {
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

function leaseOf({ job }: RunningAttempt): { orgId: string; seq: number; leaseSeq: number } {
  return { orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq };
}

const BYTES = 0;
const JSON_TEXT = 1;

/** Bytes are stored unchanged, anything else as JSON. The first byte says which. */
function encodeCheckpoint(state: unknown): Uint8Array {
  const body = state instanceof Uint8Array ? state : Buffer.from(stateText(state ?? null));
  if (body.byteLength > MAX_CHECKPOINT_BYTES) {
    throw new AppError('INVALID_REQUEST', {
      message: `The checkpoint has ${body.byteLength} bytes. At most ${MAX_CHECKPOINT_BYTES} are allowed.`,
    });
  }
  return Buffer.concat([Buffer.of(state instanceof Uint8Array ? BYTES : JSON_TEXT), body]);
}

function stateText(state: unknown): string {
  const encoded = encodeState(state);
  if (encoded.ok) return encoded.text;
  throw new AppError('NOT_SERIALIZABLE', { message: encoded.issue.message, details: [encoded.issue] });
}

function decodeCheckpoint(stored: Uint8Array): unknown {
  const body = stored.subarray(1);
  return stored[0] === BYTES ? new Uint8Array(body) : JSON.parse(Buffer.from(body).toString());
}
