import type { JoinMode } from '../../core/dependencies.ts';
import type { Failure } from '../../core/failure.ts';
import type { Actor } from '../../core/governance/actor.ts';
import type { Assignments } from '../../core/governance/assignments.ts';
import type { LogLevel } from '../../core/job-log.ts';
import type { JobState } from '../../core/states.ts';
import type { Submission } from '../../core/submission.ts';
import type { UserClient } from '../../ledger/driver/user-client.ts';
import type { JobArtifacts } from './job-artifacts.ts';

export type { LogLevel };

/** How a child job relates to the job that spawns it. */
export type SpawnOptions = {
  /**
   * This job completes only when the child has ended. With `all`, or true, it fails if the child does not complete. With `settled` the
   * outcome of the child does not matter.
   */
  join?: boolean | JoinMode;
};

/** Which results to read. */
export type ResultsOptions = {
  /** The id of this job or of a job that it depends on: reads the results of the children that it spawned with `join`. */
  childrenOf?: string;
  /** How many results to skip. */
  offset?: number;
  /** At most 1000, which is also the default. */
  limit?: number;
};

/** How a related job stands or ended. `result` is null unless it completed, and `error` unless it ended without completing. */
export type RelatedResult<R = unknown> = {
  /** The id of the job. */
  readonly jobId: string;
  /** The type of the job. */
  readonly type: string;
  /** The state of the job when the results were read. */
  readonly state: JobState;
  /** What its handler returned. */
  readonly result: R | null;
  /** Its last failure. */
  readonly error: Failure | null;
};

/** What a handler may do with the audit trail. */
export type AuditTrail = {
  /**
   * Adds a row about the work of this job, with its actor and request. Rows are never changed. Secrets in `details` are masked. Throws if
   * this attempt has lost the job. Inside a transaction that called `assertOwned`, the row commits with it.
   */
  append(event: string, details?: Readonly<Record<string, unknown>>): Promise<void>;
};

/** What a handler is given in addition to its payload. */
export type JobContext = {
  /** The id of the job. */
  readonly jobId: string;
  /** The job type. */
  readonly type: string;
  /** The org that submitted the job. */
  readonly orgId: string;
  /** The project of the org that the job belongs to, if it belongs to one. */
  readonly projectId: string | null;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** When the job was submitted. */
  readonly createdAt: Date;
  /**
   * The time that a schedule planned the job for, however late it runs. If someone ran the schedule by hand, the time of that request.
   * Null for a job that no schedule submitted.
   */
  readonly plannedAt: Date | null;
  /** Who submitted the job. Jobs of a program that uses the library belong to the actor `system`, `millrace`. */
  readonly actor: Actor;
  /** The request that submitted the job. Without one, the id of the job. */
  readonly requestId: string;
  /** The one that was given, or else the id of the request that submitted the job. */
  readonly correlationId: string;
  /** The category of a governed job. */
  readonly category: string | null;
  /** W3C Trace Context of the span that submitted the job, to continue its trace. */
  readonly traceparent: string | null;
  /** The tags of the submission. */
  readonly tags: Readonly<Record<string, string>>;
  /** When this attempt began, shortly before the handler was called. */
  readonly startedAt: Date;
  /** When the handler must have returned: after its timeout or at the end of the job's lifetime, whichever is sooner. */
  readonly deadline: Date;
  /** Whether the job was asked to stop. */
  readonly isCancelled: boolean;
  /** Aborted when someone asks to cancel the job, it times out, or no longer belongs to this worker. `signal.reason` says which. */
  readonly signal: AbortSignal;
  /** The id of this attempt. */
  readonly attemptId: string;
  /** The id of the attempt before this one. Null for the first. */
  readonly previousAttemptId: string | null;
  /** The caller's key, or one derived from the payload of a governed job, or from the job's id. It is the same for every attempt of the job. */
  readonly idempotencyKey: string;
  /** The fencing token of this attempt. A later attempt always has a higher one. */
  readonly leaseToken: number;

  /** The audit trail of the org. */
  readonly audit: AuditTrail;
  /** Stores files that belong to the job, and reads files of its org. */
  readonly artifacts: JobArtifacts;

  /** Stores how far the job is, 0 to 100. Readers and event streams see it. */
  reportProgress(percent: number, message?: string): Promise<void>;
  /** Stores state for the next attempt. Throws JobCancelledError if the job was asked to stop. */
  checkpoint(state: unknown): Promise<void>;
  /** Returns the state that the last checkpoint of an earlier attempt stored, or null. */
  lastCheckpoint<T = unknown>(): Promise<T | null>;
  /** Writes assignments. Only a planning job may, whose payload has the command and whose type the operator granted it. */
  readonly assignments: Assignments;
  /** Creates a child job and returns its id. Handlers of audit enrichment jobs may not. */
  spawn(submission: Submission, options?: SpawnOptions): Promise<string>;
  /**
   * Returns the results of the jobs that this one depends on, in the order of their submission, or of joined children, in the order in
   * which they were spawned. Throws if the results have more than 16 MB together: read them in pages then.
   */
  results<R = unknown>(options?: ResultsOptions): Promise<RelatedResult<R>[]>;
  /**
   * Logs a line. It is stored with the job, passed to listeners for `log` and shown on event streams that ask for it. Never waits and
   * never throws. An attempt stores 1000 lines and 1 MB.
   */
  log(level: LogLevel, message: string, fields?: Record<string, unknown>): void;
  /** Logs a line with the level `info`. */
  log(message: string): void;
  /**
   * Throws LeaseLostError unless this attempt still has the lease of the job. Locks the job until the transaction of `client`
   * ends. Until then, progress, checkpoints and spawned jobs are written in that transaction.
   */
  assertOwned(client: UserClient): Promise<void>;
  /** Completes the job inside the transaction of `client`: both commit, or neither does. */
  completeIn(client: UserClient, result?: unknown): Promise<void>;
};
