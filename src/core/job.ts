import type { DependencyType } from './dependencies.ts';
import type { Failure } from './failure.ts';
import type { DeadLetterStatus } from './governance/dead-letter.ts';
import type { JobLimit } from './limit.ts';
import type { Payload } from './payload.ts';
import type { Priority } from './priority.ts';
import { isTerminal, type JobState } from './states.ts';
import type { Reason } from './transitions.ts';

export const ACTOR_TYPES = ['user', 'system', 'api_key'] as const;

export interface Actor {
  readonly type: (typeof ACTOR_TYPES)[number];
  readonly id: string;
}

/** A job without its payload. `updatedAt` changes only when the state changes. */
export interface JobSummary {
  readonly id: string;
  /** The order of submission, and the only order of jobs. */
  readonly seq: number;
  readonly orgId: string;
  readonly type: string;
  readonly queue: string;
  readonly state: JobState;
  /** A live worker has claimed the job and not started it yet. */
  readonly isLeased: boolean;
  readonly priority: Priority;
  readonly attempt: number;
  readonly attemptsStarted: number;
  readonly attemptSlot: number;
  readonly maxAttempts: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** The earliest start; null while the job waits for dependencies. */
  readonly scheduledFor: Date | null;
  /** When the job last became `scheduled`. */
  readonly scheduledAt: Date | null;
  readonly startedAt: Date | null;
  readonly completedAt: Date | null;
  readonly cancelRequestedAt: Date | null;
  readonly lifetimeDeadlineAt: Date | null;
  /** The scheduled run that the job belongs to; null if no schedule submitted it. */
  readonly plannedAt: Date | null;
  /** Only when it was asked for, and only once the job has ended after at least one attempt. */
  readonly result?: JobResult;
  readonly progress?: Progress;
  readonly lastFailure: Failure | null;
  readonly tags: Readonly<Record<string, string>> | null;
  /** As submitted, otherwise the request id. */
  readonly correlationId: string;
  /** The request that submitted the job; without one, the job id. */
  readonly requestId: string;
  readonly category: string | null;
  readonly projectId: string | null;
  readonly traceparent: string | null;
  readonly idempotencyKey: string | null;
  readonly callbackUrl: string | null;
  readonly dependsOn: readonly string[];
  readonly dependencyType: DependencyType | null;
  readonly parentId: string | null;
  /** What became of a dead-lettered job; null for a job in another state. */
  readonly deadLetterStatus: DeadLetterStatus | null;
  /** The dead-lettered job whose work it does, with a corrected payload. */
  readonly replacesJobId: string | null;
  /** The job that does the work of this dead-lettered one. */
  readonly replacedByJobId: string | null;
  /** The limit that it shares with the jobs of its org that have the same key. */
  readonly limit: JobLimit | null;
}

/** A job with its payload. */
export interface Job extends JobSummary {
  /** The payload as it is stored. */
  readonly payload: Payload;
}

/** The result of the last attempt. */
export interface JobResult {
  /** Whether the handler returned or failed. */
  readonly status: 'SUCCESS' | 'FAILURE';
  /** The value that the handler returned. Null after a failure. */
  readonly output: Payload | null;
  /** Why the attempt failed. Null after a success. */
  readonly error: Failure | null;
  /** How long the attempt took. */
  readonly durationMs: number;
  /** The number of the attempt. The first is 1. */
  readonly attempt: number;
}

/** How far a running job says it is. */
export interface Progress {
  /** 0 to 100. */
  readonly percent: number;
  /** What the handler is doing. */
  readonly message: string | null;
  /** When the handler reported it. */
  readonly updatedAt: Date;
}

/** One change of state in the history of a job. */
export interface StateTransition {
  /** Null for the first transition. */
  readonly from: JobState | null;
  /** The new state. */
  readonly to: JobState;
  /** The time of the change, by the database's clock. */
  readonly at: Date;
  /** Why the state changed. */
  readonly reason: Reason;
  /** The attempts started so far. */
  readonly attempt: number;
  /** Who asked for the change. Null if the engine made it. */
  readonly actor: Actor | null;
  /** The job was cancelled after a worker had claimed it and before it started. */
  readonly wasClaimed?: true;
  /** Set when the attempts are exhausted and the last one ended by its timeout. */
  readonly timedOut?: true;
  /** Time between the claim and this start or cancellation; absent when the claim also started the job. */
  readonly assignedMs?: number;
}

export interface AttemptInfo {
  readonly attempt: number;
  readonly attemptId: string;
  readonly startedAt: Date;
  readonly finishedAt: Date | null;
  readonly result: 'SUCCESS' | 'FAILURE' | 'TIMEOUT' | 'CANCELLED' | null;
  readonly failure: Failure | null;
  readonly workerId: string | null;
  readonly host: string | null;
}

/** Counts from 1: a job that has not started is at its first attempt. */
export function currentAttempt(attemptsStarted: number): number {
  return Math.max(1, attemptsStarted);
}

/** A job that ended before its first attempt has no result. */
export function hasResult({ state, attemptsStarted }: Pick<JobSummary, 'state' | 'attemptsStarted'>): boolean {
  return isTerminal(state) && attemptsStarted > 0;
}

export function attemptResult(failure: Failure | null): Exclude<AttemptInfo['result'], null> {
  if (failure === null) return 'SUCCESS';
  if (failure.category === 'TIMEOUT' || failure.category === 'CANCELLED') return failure.category;
  return 'FAILURE';
}
