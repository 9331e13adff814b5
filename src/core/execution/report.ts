import type { Failure } from '../failure.ts';
import type { Job } from '../job.ts';
import type { ExecutionEvent } from './events.ts';
import { type ExecutionOutcome, executionStateOf, outcomeOf } from './states.ts';

export type ExecutionFailure = {
  readonly code: string;
  readonly message: string;
  /** Whether the same work may succeed when it is tried again. */
  readonly retryable: boolean;
};

/** What became of a job, told once it has ended. */
export type ExecutionReport = {
  readonly jobId: string;
  readonly outcome: ExecutionOutcome;
  readonly events: readonly ExecutionEvent[];
  /** Of the attempt that gave the outcome; null when it never started. */
  readonly startedAt: Date | null;
  readonly finishedAt: Date;
  readonly durationMs: number;
  readonly failure: ExecutionFailure | null;
};

type Reported = Pick<Job, 'id' | 'state' | 'attemptsStarted' | 'lastFailure'> & { readonly isLeased: boolean };

/** Null while the job is not final, and when its history is gone or has moved on from what the job was read as. */
export function reportOf(job: Reported, events: readonly ExecutionEvent[]): ExecutionReport | null {
  const state = executionStateOf(job);
  const outcome = outcomeOf(state);
  const last = events.at(-1);
  if (outcome === null || last?.nextState !== state) return null;
  const started = events.findLast(({ eventName }) => eventName === 'job.running' || eventName === 'job.retried');
  const startedAt = started?.eventName === 'job.running' ? new Date(started.timestamp) : null;
  const finishedAt = new Date(last.timestamp);
  return {
    jobId: job.id,
    outcome,
    events,
    startedAt,
    finishedAt,
    durationMs: startedAt === null ? 0 : finishedAt.getTime() - startedAt.getTime(),
    failure: outcome === 'FAILED' ? failureOf(job.lastFailure) : null,
  };
}

const TIMEOUT_CODE = 'RFA_EXEC_TIMEOUT';

/** Why an attempt failed, without what is meant for the handler's authors. */
export function failureOf(failure: Failure | null): ExecutionFailure | null {
  if (failure === null) return null;
  const { category, code, message } = failure;
  return {
    code: code === 'EXECUTION_TIMEOUT' ? TIMEOUT_CODE : code,
    message,
    retryable: category === 'TEMPORARY' || category === 'TIMEOUT' || category === 'SYSTEM',
  };
}
