import { EventEmitter } from 'node:events';
import type { Failure } from '../core/failure.ts';
import type { JobState } from '../core/states.ts';
import type { LogLevel } from './work/job-context.ts';

export type JobFacts = {
  jobId: string;
  type: string;
  attempt: number;
  orgId: string;
  tags: Readonly<Record<string, string>> | null;
  createdAtMs: number;
};

export type StagedJob = Omit<JobFacts, 'createdAtMs'> & { from: 'delayed' | 'retrying' };

export type WebhookAttempt = {
  orgId: string;
  webhookId: string;
  deliveryId: string;
  /** The name of the event that is delivered. */
  event: string;
  /** Null for what tells of no job. */
  jobId: string | null;
  /** The trace of the job, as its payload has it. */
  traceparent: string | null;
  attempt: number;
  verdict: 'delivered' | 'retry' | 'failed' | 'gone';
  /** Null where no answer came. */
  status: number | null;
  errorCode: string | null;
  durationMs: number;
};

/** What happens in this process, as it happens. A listener that throws hurts nobody else. */
export type EngineEvents = {
  /** `assignedMs`: how long the job was under lease before; absent where its claim started it. */
  started: JobFacts & { assignedMs?: number };
  completed: JobFacts & { output: unknown };
  failed: JobFacts & { state: JobState; failure: Failure; delayMs: number | null };
  cancelled: JobFacts;
  /** This worker no longer holds the job: what it did was refused. */
  lost: JobFacts;
  /** The time of waiting jobs came and this process made them ready; told of all of them. */
  staged: { jobs: readonly StagedJob[] };
  /** This process ended the attempt of a worker that fell silent. */
  rescued: JobFacts & { state: JobState; failure: Failure; delayMs: number | null };
  /** A worker fell silent between the claim of a job and its start, and this process put the job back in line. */
  unclaimed: JobFacts;
  progress: JobFacts & { percent: number; message: string | null };
  log: JobFacts & { level: LogLevel; message: string; fields: Record<string, unknown> };
  /** One call of a webhook or callback has ended and is written down. */
  webhookAttempt: WebhookAttempt;
  /** A webhook or callback was disabled because it is gone or fails. */
  webhookDisabled: { orgId: string; webhookId: string; reason: 'gone' | 'failing' };
  /** An item of the history could not be processed. It is noted in `millrace.set_aside` and blocks nothing behind it. */
  setAside: {
    projection: string;
    orgId: string | null;
    recordId: number;
    jobSeq: number | null;
    webhookId: string | null;
    error: unknown;
  };
  /** Something failed that the engine will try again, mostly because the database is away. */
  error: { error: unknown; where: string };
};

export class EventHub {
  readonly #emitter = new EventEmitter().setMaxListeners(0);

  on<E extends keyof EngineEvents>(event: E, listener: (facts: EngineEvents[E]) => void): () => void {
    const guarded = (facts: EngineEvents[E]) => {
      try {
        listener(facts);
      } catch (error) {
        if (event !== 'error') this.emit('error', { error, where: `listener of ${event}` });
      }
    };
    this.#emitter.on(keyOf(event), guarded);
    return () => this.#emitter.off(keyOf(event), guarded);
  }

  hears(event: keyof EngineEvents): boolean {
    return this.#emitter.listenerCount(keyOf(event)) > 0;
  }

  emit<E extends keyof EngineEvents>(event: E, facts: EngineEvents[E]): void {
    this.#emitter.emit(keyOf(event), facts);
  }
}

// Node throws on an unheard 'error' event; ours are information.
const keyOf = (event: keyof EngineEvents): string => `millrace:${event}`;
