import type { Submission } from '../../core/submission.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export type SpawnOptions = {
  /** This job completes only when the child has ended. */
  join?: boolean;
};

/** What a handler is given beside its payload. */
export type JobContext = {
  readonly jobId: string;
  readonly type: string;
  /** 1 for the first run. */
  readonly attempt: number;
  readonly createdAt: Date;
  /** As given, else the id of the request that brought the job. */
  readonly correlationId: string;
  /** W3C Trace Context: the span that asked for the job, to continue its trace. */
  readonly traceparent: string | null;
  readonly tags: Readonly<Record<string, string>>;
  /** When this attempt began: a little before the handler did. */
  readonly startedAt: Date;
  /** When the handler must be done: its timeout or the end of the job's lifetime, whichever is sooner. */
  readonly deadline: Date;
  readonly isCancelled: boolean;
  /** Aborted when the job is cancelled, times out, or no longer belongs to this worker. `signal.reason` says which. */
  readonly signal: AbortSignal;
  readonly attemptId: string;
  readonly previousAttemptId: string | null;
  /** The caller's key, or one derived from the job's id: always there, always the same for the same job. */
  readonly idempotencyKey: string;
  /** The fencing token of this attempt. A later attempt always has a higher one. */
  readonly leaseToken: number;

  reportProgress(percent: number, message?: string): Promise<void>;
  /** Stores state that the next attempt finds. Throws JobCancelledError when the job was asked to stop. */
  checkpoint(state: unknown): Promise<void>;
  lastCheckpoint<T = unknown>(): Promise<T | null>;
  /** Creates a child job and answers its id. */
  spawn(submission: Submission, options?: SpawnOptions): Promise<string>;
  log(level: LogLevel, message: string, fields?: Record<string, unknown>): void;
  /**
   * Throws LeaseLostError unless this attempt still holds the job; locks it until `client`'s transaction ends. Until then
   * progress, checkpoints and spawned jobs are written in that transaction.
   */
  assertOwned(client: Queryable): Promise<void>;
  /** Completes the job inside the caller's transaction: both commit, or neither. */
  completeIn(client: Queryable, result?: unknown): Promise<void>;
};
