import { type Actor, actorOfText } from '../../core/governance/actor.ts';
import { attemptIdOf } from '../../core/ids.ts';
import type { RunningAttempt } from './running-attempt.ts';

/** What a handler can read about its job and its attempt. */
export class AttemptFacts {
  readonly #attempt: RunningAttempt;

  constructor(attempt: RunningAttempt) {
    this.#attempt = attempt;
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
  get plannedAt(): Date | null {
    const { plannedAtMs } = this.#attempt.job;
    return plannedAtMs === null ? null : new Date(Math.round(plannedAtMs));
  }
  get actor(): Actor {
    return actorOfText(this.#attempt.job.actor);
  }
  get requestId(): string {
    return this.#attempt.job.requestId ?? this.#attempt.job.id;
  }
  get category(): string | null {
    return this.#attempt.job.category;
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
    return job.idempotencyKey ?? [job.jobType, job.orgId, ...(job.projectId === null ? [] : [job.projectId]), job.id].join(':');
  }
  get leaseToken(): number {
    return this.#attempt.job.leaseSeq;
  }
}
