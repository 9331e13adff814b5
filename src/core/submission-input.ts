import type { BackoffStrategy } from './backoff.ts';
import type { DependencyType } from './dependencies.ts';
import type { DurationInput } from './duration.ts';
import type { CategoryName } from './governance/categories.ts';
import type { LimitSubmission } from './limit.ts';
import type { Priority } from './priority.ts';
import type { TimestampInput } from './timestamp.ts';
import type { DebounceSubmission, UniqueSubmission } from './unique.ts';

export interface BackoffSubmission {
  readonly strategy?: BackoffStrategy;
  readonly initialDelay?: DurationInput;
  readonly maxDelay?: DurationInput;
  readonly multiplier?: number;
  readonly jitter?: boolean;
}

/** What a caller submits. A member that is undefined or null counts as absent. */
export interface Submission<P = unknown> {
  /** The job type, which selects the handler. */
  readonly type: string;
  /** The input of the handler: a JSON value. */
  readonly payload: P;
  /** Default: NORMAL. */
  readonly priority?: Priority | null;
  /** How long to wait before the job may start. Not together with `scheduledAt`. */
  readonly delay?: DurationInput | null;
  /** When the job may start. Not together with `delay`. */
  readonly scheduledAt?: TimestampInput | null;
  /** How long one attempt may take. */
  readonly timeout?: DurationInput | null;
  /** The longest time from the submission to the end of the job, delays and retries included. */
  readonly lifetime?: DurationInput | null;
  /** How many attempts the job has before it is dead-lettered. */
  readonly maxAttempts?: number | null;
  /** How long the job waits before each retry. */
  readonly backoff?: BackoffSubmission | null;
  /** A second submission with the same key returns the first job. */
  readonly idempotencyKey?: string | null;
  /** An id that connects jobs and logs. Default: the id of the request. */
  readonly correlationId?: string | null;
  /** Names and values to search by. */
  readonly tags?: Readonly<Record<string, string>> | null;
  /** The ids of jobs that must end first. */
  readonly dependsOn?: readonly string[] | null;
  /** AFTER (default) and CHAIN: start when all of them completed. AFTER_ANY: start when the first has ended, in any state. */
  readonly dependencyType?: DependencyType | null;
  /** An address that receives the outcome of the job. */
  readonly callbackUrl?: string | null;
  /** The queue to wait in. */
  readonly queue?: string | null;
  /** How many jobs with one key run at the same time or start within a time. Default: the limit of the type, else that of the queue. */
  readonly limit?: LimitSubmission | null;
  /** One job with a key at a time: what becomes of this submission while there is another. */
  readonly unique?: UniqueSubmission | null;
  /** One job for many submissions with a key, which starts when none came for a time. Not together with `unique`, `delay` or `scheduledAt`. */
  readonly debounce?: DebounceSubmission | null;
  /** Makes it a governed job: its category decides its queue, its retries, and what it may contain. */
  readonly category?: CategoryName | null;
  /** A scope inside the org. The same idempotency key in two projects names two jobs. */
  readonly projectId?: string | null;
  /** W3C Trace Context: the span that submits the job. */
  readonly traceparent?: string | null;
}
