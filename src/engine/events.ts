import { EventEmitter } from 'node:events';
import type { DeliveryVerdict } from '../core/delivery-policy.ts';
import type { Failure } from '../core/failure.ts';
import type { JobState } from '../core/states.ts';
import type { MovedJob } from '../ledger/moved-jobs.ts';
import type { LogLevel } from './work/job-context.ts';

export type JobFacts = {
  jobId: string;
  type: string;
  attempt: number;
  orgId: string;
  tags: Readonly<Record<string, string>> | null;
  createdAtMs: number;
  correlationId?: string | null;
  projectId?: string | null;
};

type ReportedJob = Pick<JobFacts, 'orgId' | 'tags' | 'createdAtMs' | 'correlationId' | 'projectId'> & {
  id: string;
  jobType: string;
  attemptsStarted: number;
};

export const factsOf = ({ id, jobType, attemptsStarted, orgId, tags, createdAtMs, correlationId, projectId }: ReportedJob): JobFacts => ({
  jobId: id,
  type: jobType,
  attempt: attemptsStarted,
  orgId,
  tags,
  createdAtMs,
  correlationId,
  projectId,
});

export type StagedJob = Omit<JobFacts, 'createdAtMs'> & { from: 'delayed' | 'retrying' };

/** `requestId`: of the request that asked for the change. */
export type ReportedMove = MovedJob & { requestId: string | null };

export type WebhookAttempt = {
  orgId: string;
  webhookId: string;
  deliveryId: string;
  /** The name of the event that is delivered. */
  event: string;
  /** Null for a message that is not about a job. The members of the job are null too if it was removed. */
  jobId: string | null;
  jobType: string | null;
  correlationId: string | null;
  projectId: string | null;
  /** The trace context in the payload of the job. */
  traceparent: string | null;
  attempt: number;
  verdict: DeliveryVerdict;
  /** Null if the server did not respond. */
  status: number | null;
  errorCode: string | null;
  durationMs: number;
};

/** What happens in this process. An error in one listener does not affect the others. */
export type EngineEvents = {
  /** `assignedMs` is how long the job was leased before it started; undefined if its claim started it. */
  started: JobFacts & { assignedMs?: number };
  /** A job completed, with the output of its handler. */
  completed: JobFacts & { output: unknown };
  /** An attempt failed. `delayMs` is the delay before the retry; null if there is none. */
  failed: JobFacts & { state: JobState; failure: Failure; delayMs: number | null };
  /** A running job was cancelled. */
  cancelled: JobFacts;
  /** The handler returned the job for later, and the attempt does not count. */
  postponed: JobFacts & { delayMs: number };
  /** This worker has lost the lease of the job, and the ledger refused its write. */
  lost: JobFacts;
  /** This process made waiting jobs ready because they were due. */
  staged: { jobs: readonly StagedJob[] };
  /** This process ended the attempt of a worker that fell silent. */
  rescued: JobFacts & { state: JobState; failure: Failure; delayMs: number | null };
  /**
   * This process ended a job outside of an attempt, as failed or as a dead letter: its lifetime was over while it waited, a dependency or a child
   * failed, or a request dropped or took back its next attempt.
   */
  failedWaiting: ReportedMove;
  /** This process cancelled a job that it did not run, or queued a failed job again, because a request or an operation asked for it. */
  moved: ReportedMove;
  /** The dependencies of a waiting job ended, and this process moved the job. */
  released: ReportedMove;
  /** A worker fell silent between the claim of a job and its start, and this process returned the job to its queue. */
  unclaimed: JobFacts;
  /** A handler reported its progress. */
  progress: JobFacts & { percent: number; message: string | null };
  /** A handler wrote a log line. */
  log: JobFacts & { level: LogLevel; message: string; fields: Record<string, unknown> };
  /** Submissions returned the jobs of earlier submissions with the same key. */
  deduplicated: { submissions: number };
  /** One request to a webhook or callback has ended and is recorded. */
  webhookAttempt: WebhookAttempt;
  /** A webhook or callback was disabled because it is gone or keeps failing. */
  webhookDisabled: { orgId: string; webhookId: string; reason: 'gone' | 'failing' };
  /** An item of the history could not be processed. It is recorded in `millrace.set_aside`, and the items after it are processed. */
  setAside: {
    projection: string;
    orgId: string | null;
    recordId: number;
    jobSeq: number | null;
    webhookId: string | null;
    error: unknown;
  };
  /** `enqueueBestEffort` could not enqueue a notification. The message contains no secret. */
  notificationLost: { orgId: string; type: string; message: string; error: unknown };
  /** Something failed that the engine will retry, mostly because the database is down. */
  error: { error: unknown; where: string };
};

/** The events of one job. */
export type EventOfJob = { [E in keyof EngineEvents]: EngineEvents[E] extends { type: string } ? E : never }[keyof EngineEvents];

export class EventHub {
  readonly #emitter = new EventEmitter().setMaxListeners(0);
  #typed = 0;

  on<E extends keyof EngineEvents>(event: E, listener: (facts: EngineEvents[E]) => void): () => void {
    return this.#listen(event, keyOf(event), listener);
  }

  /** Like `on`, for jobs of one type. Jobs of other types then cost nothing: a job without a listener is not described. */
  onType<E extends EventOfJob>(event: E, type: string, listener: (facts: EngineEvents[E]) => void): () => void {
    this.#typed++;
    return this.#listen(event, keyOf(event, type), listener);
  }

  #listen<E extends keyof EngineEvents>(event: E, key: string, listener: (facts: EngineEvents[E]) => void): () => void {
    const guarded = (facts: EngineEvents[E]) => {
      try {
        listener(facts);
      } catch (error) {
        if (event !== 'error') this.emit('error', { error, where: `listener of ${event}` });
      }
    };
    this.#emitter.on(key, guarded);
    return () => this.#emitter.off(key, guarded);
  }

  /** `type`: of the job, if the event is about one. */
  hasListeners(event: keyof EngineEvents, type?: string): boolean {
    if (this.#emitter.listenerCount(keyOf(event)) > 0) return true;
    return type !== undefined && this.#typed > 0 && this.#emitter.listenerCount(keyOf(event, type)) > 0;
  }

  emit<E extends keyof EngineEvents>(event: E, facts: EngineEvents[E]): void {
    this.#emitter.emit(keyOf(event), facts);
    if (this.#typed > 0 && 'type' in facts) this.#emitter.emit(keyOf(event, facts.type), facts);
  }
}

// Node throws if an 'error' event has no listener. For us an error event is information.
const keyOf = (event: keyof EngineEvents, type?: string): string =>
  type === undefined ? `millrace:${event}` : `millrace:${event}:${type}`;
