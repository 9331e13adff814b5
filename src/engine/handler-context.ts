import { boundFields, boundText } from '../core/bounded-text.ts';
import { AppError } from '../core/errors.ts';
import { JobCancelledError, LeaseLostError } from '../core/failure.ts';
import { attemptIdOf } from '../core/ids.ts';
import { encodeOutput } from '../core/payload.ts';
import type { Submission } from '../core/submission.ts';
import { FIELD_LIMITS } from '../core/submission-fields.ts';
import { assertOwned } from '../ledger/assert-owned.ts';
import type { Database } from '../ledger/database.ts';
import { reportProgress } from '../ledger/report-progress.ts';
import { loadCheckpoint, saveCheckpoint } from '../ledger/save-checkpoint.ts';
import { settleJobs } from '../ledger/settle-jobs.ts';
import type { Queryable } from '../ledger/statement.ts';
import { decodeCheckpoint, encodeCheckpoint } from './checkpoint-format.ts';
import type { EventHub } from './events.ts';
import type { Execution } from './execution.ts';
import type { JobContext, LogLevel, SpawnOptions } from './job-context.ts';

export type ContextServices = {
  database: Database;
  events: EventHub;
  workerId(): number;
  spawn(execution: Execution, submission: Submission, join: boolean): Promise<string>;
};

/** The context of one attempt. Values are read when asked for: most handlers look at few of them. */
export class HandlerContext implements JobContext {
  readonly #execution: Execution;
  readonly #services: ContextServices;

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
    const { landed, cancelRequested } = await reportProgress(this.#services.database.workers, {
      ...leaseOf(this.#execution),
      percent: Math.round(percent),
      message: text,
    });
    this.#answer(landed, cancelRequested !== null);
    this.#services.events.emit('progress', { ...this.#execution.facts, percent: Math.round(percent), message: text });
  }

  async checkpoint(state: unknown): Promise<void> {
    const saved = await saveCheckpoint(this.#services.database.workers, {
      ...leaseOf(this.#execution),
      state: encodeCheckpoint(state),
    });
    this.#answer(saved.landed, saved.cancelRequested !== null);
  }

  async lastCheckpoint<T = unknown>(): Promise<T | null> {
    const { orgId, seq } = this.#execution.job;
    const stored = await loadCheckpoint(this.#services.database.workers, { orgId, seq });
    return stored === null ? null : (decodeCheckpoint(stored.state) as T);
  }

  spawn(submission: Submission, options: SpawnOptions = {}): Promise<string> {
    const join = options.join ?? this.#execution.registered.fanIn;
    return this.#services.spawn(this.#execution, submission, join);
  }

  log(level: LogLevel, message: string, fields: Record<string, unknown> = {}): void {
    if (!this.#services.events.hears('log')) return;
    const bounded = boundFields(fields, FIELD_LIMITS.logFieldsBytes);
    this.#services.events.emit('log', { ...this.#execution.facts, level, message, fields: bounded });
  }

  async assertOwned(client: Queryable): Promise<void> {
    if (await assertOwned(client, leaseOf(this.#execution))) return;
    this.#execution.abort('lost_lease');
    throw new LeaseLostError();
  }

  async completeIn(client: Queryable, result?: unknown): Promise<void> {
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
    if (!landed.has(this.leaseToken)) {
      this.#execution.abort('lost_lease');
      throw new LeaseLostError();
    }
    this.#execution.isCompletedByHandler = true;
  }

  /** A write that did not land means the job is another's; one that did may bring the news of a cancellation. */
  #answer(landed: boolean, cancelRequested: boolean): void {
    if (!landed) {
      this.#execution.abort('lost_lease');
      throw this.#execution.abortError();
    }
    if (!cancelRequested) return;
    this.#execution.isCancelRequested = true;
    throw new JobCancelledError();
  }
}

function leaseOf({ job }: Execution): { orgId: string; seq: number; leaseSeq: number } {
  return { orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq };
}
