import { boundText } from '../../core/bounded-text.ts';
import { isJoin, type JoinMode, joinModeOf } from '../../core/dependencies.ts';
import { AppError } from '../../core/errors.ts';
import { JobCancelledError, LeaseLostError } from '../../core/failure.ts';
import type { Assignments } from '../../core/governance/assignments.ts';
import type { Categories } from '../../core/governance/category.ts';
import { readHandlerEvent } from '../../core/governance/handler-event.ts';
import { requireCapability } from '../../core/governance/require-capability.ts';
import { readLogCall } from '../../core/job-log.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import type { Submission } from '../../core/submission.ts';
import { FIELD_LIMITS } from '../../core/submission-fields.ts';
import { appendAudit } from '../../ledger/attempts/append-audit.ts';
import { assertOwned, type FencedAnswer, loadCheckpoint, reportProgress, saveCheckpoint } from '../../ledger/attempts/fenced-writes.ts';
import { settleJobs } from '../../ledger/attempts/settle-jobs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { currentTransaction, isNeverSent, OwnedTransaction } from '../../ledger/driver/owned-transaction.ts';
import { requireTransaction } from '../../ledger/driver/require-transaction.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { toQueryable, type UserClient } from '../../ledger/driver/user-client.ts';
import type { ArtifactStorage } from '../artifacts/artifact-storage.ts';
import type { EventHub } from '../events.ts';
import type { NewsHints } from '../news.ts';
import { assignmentsOf } from './assignments.ts';
import { AttemptFacts } from './attempt-facts.ts';
import { AttemptLines } from './attempt-lines.ts';
import { decodeCheckpoint, encodeCheckpoint } from './checkpoint-codec.ts';
import { encodeResult } from './encode-result.ts';
import { HandlerArtifacts } from './handler-artifacts.ts';
import type { AuditTrail, JobContext, RelatedResult, ResultsOptions, SpawnOptions } from './job-context.ts';
import type { LogWriter } from './log-writer.ts';
import { readResults } from './related-results.ts';
import { retryWhileHeld } from './retry-while-held.ts';
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
  news: NewsHints;
  /** Null if lines are not stored. */
  logs: LogWriter | null;
  /** Null if this process has no place for artifacts. */
  artifacts(): ArtifactStorage | null;
  maxResultBytes: number;
  categories: Categories;
  workerId(): number;
  /** Resolves when the ledger has the start of the attempt, or with false if this worker has lost the job. */
  ensureStarted(attempt: RunningAttempt): Promise<boolean>;
  /** Returns null, and writes nothing, if the transaction of the request has ended. */
  spawn(attempt: RunningAttempt, request: SpawnRequest): Promise<string | null>;
};

const SPAWN_OPTIONS = membersOf<SpawnOptions>({ join: true });

const JOIN = "join must be true, false, 'all' or 'settled'.";
const COMPLETED = 'completeIn has completed the job in this transaction. Report progress, save checkpoints and spawn jobs before it.';

/** The context of one attempt. Values are computed when they are read, because most handlers read few of them. */
export class HandlerContext extends AttemptFacts implements JobContext {
  readonly #attempt: RunningAttempt;
  readonly #services: ContextServices;
  /** The handler's transaction that holds the job. It may have ended since. */
  #transaction: OwnedTransaction | null = null;
  #artifacts: HandlerArtifacts | null = null;

  constructor(attempt: RunningAttempt, services: ContextServices) {
    super(attempt);
    this.#attempt = attempt;
    this.#services = services;
  }

  get assignments(): Assignments {
    const { jobId, orgId, projectId, attemptId, idempotencyKey } = this;
    return assignmentsOf({
      attempt: this.#attempt,
      job: { jobId, orgId, projectId, attemptId, idempotencyKey },
      planning: this.#services.categories.get('planning'),
    });
  }

  get audit(): AuditTrail {
    return { append: async (event, details) => this.#appendAudit(readHandlerEvent(event, details)) };
  }

  async #appendAudit(entry: { event: string; details: string }): Promise<void> {
    await this.#ensureStarted();
    const append = { ...leaseOf(this.#attempt), ...entry, performedBy: `worker:${this.#services.workerId()}` };
    const { landed } = await this.#inPlace((db, transactionId) => appendAudit(db, append, transactionId));
    if (!landed) this.#lose();
  }

  get artifacts(): HandlerArtifacts {
    const { database, artifacts } = this.#services;
    this.#artifacts ??= new HandlerArtifacts(this.#attempt, {
      database,
      storage: artifacts,
      ensureStarted: () => this.#ensureStarted(),
      inPlace: (work) => this.#inPlace(work),
      checkLanded: (answer) => this.#checkLanded(answer),
    });
    return this.#artifacts;
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
    this.#services.news.progress(report);
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
    requireCapability(this.category, 'jobs', this.type);
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

  log(...given: [string, string?, Record<string, unknown>?]): void {
    const { events, logs } = this.#services;
    const isHeard = events.hasListeners('log', this.#attempt.job.jobType);
    if (logs === null && !isHeard) return;
    const { level, message, fields } = readLogCall(given);
    if (logs !== null) {
      this.#attempt.lines ??= new AttemptLines(this.#attempt.job, logs);
      this.#attempt.lines.add(level, message, fields);
    }
    if (isHeard) events.emit('log', { ...this.#attempt.facts, level, message, fields });
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
    await this.#attempt.lines?.flush();
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

function leaseOf({ job }: RunningAttempt): { orgId: string; seq: number; leaseSeq: number } {
  return { orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq };
}
