import type { DependencyType } from './dependencies.ts';
import type { Failure } from './failure.ts';
import type { Payload } from './payload.ts';
import type { Priority } from './priority.ts';
import { isTerminal, type JobState } from './states.ts';
import type { Reason } from './transitions.ts';

export const ACTOR_TYPES = ['user', 'system', 'api_key'] as const;

export interface Actor {
  readonly type: (typeof ACTOR_TYPES)[number];
  readonly id: string;
}

/** A job as readers get it. `updatedAt` moves with the state and with nothing else. */
export interface Job {
  readonly id: string;
  /** Order of submission; the only thing jobs are ordered by. */
  readonly seq: number;
  readonly orgId: string;
  readonly type: string;
  readonly queue: string;
  readonly state: JobState;
  /** Scheduled, and a worker that lives has claimed it without having started it yet. */
  readonly isLeased: boolean;
  readonly priority: Priority;
  readonly attempt: number;
  readonly attemptsStarted: number;
  readonly attemptSlot: number;
  readonly maxAttempts: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** The earliest start; null while dependencies are unmet. */
  readonly scheduledFor: Date | null;
  /** When the job last became `scheduled`. */
  readonly scheduledAt: Date | null;
  readonly startedAt: Date | null;
  readonly completedAt: Date | null;
  readonly cancelRequestedAt: Date | null;
  readonly lifetimeDeadlineAt: Date | null;
  readonly payload: Payload;
  readonly result?: JobResult;
  readonly progress?: Progress;
  readonly lastFailure: Failure | null;
  readonly tags: Readonly<Record<string, string>> | null;
  /** As given, else the id of the request. */
  readonly correlationId: string;
  /** Of the request that brought the job; without one, its own id. */
  readonly requestId: string;
  readonly category: string | null;
  readonly projectId: string | null;
  readonly traceparent: string | null;
  readonly idempotencyKey: string | null;
  readonly callbackUrl: string | null;
  readonly dependsOn: readonly string[];
  readonly dependencyType: DependencyType | null;
  readonly parentId: string | null;
}

export interface JobResult {
  readonly status: 'SUCCESS' | 'FAILURE';
  readonly output: Payload | null;
  readonly error: Failure | null;
  readonly durationMs: number;
  readonly attempt: number;
}

export interface Progress {
  readonly percent: number;
  readonly message: string | null;
  readonly updatedAt: Date;
}

export interface StateTransition {
  /** Null for the birth of the job. */
  readonly from: JobState | null;
  readonly to: JobState;
  readonly at: Date;
  readonly reason: Reason;
  readonly attempt: number;
  readonly actor: Actor | null;
  /** A cancellation took the job from a worker that had claimed it and not started it. */
  readonly wasClaimed?: true;
  /** The last attempt that it could have ended by its timeout. */
  readonly timedOut?: true;
  /** How long a worker had it under lease before this start or cancellation; absent where the claim started it. */
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

/** 1-indexed: a job that never started is at its first attempt. */
export function currentAttempt(attemptsStarted: number): number {
  return Math.max(1, attemptsStarted);
}

/** A job that ended without an attempt, cancelled early or stopped by a dependency, has no result. */
export function hasResult({ state, attemptsStarted }: Pick<Job, 'state' | 'attemptsStarted'>): boolean {
  return isTerminal(state) && attemptsStarted > 0;
}

/** A failed attempt's result word, as readers of attempts see it. */
export function attemptResult(failure: Failure | null): Exclude<AttemptInfo['result'], null> {
  if (failure === null) return 'SUCCESS';
  if (failure.category === 'TIMEOUT' || failure.category === 'CANCELLED') return failure.category;
  return 'FAILURE';
}
