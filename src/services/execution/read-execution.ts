import { AppError } from '../../core/errors.ts';
import { type ExecutionDefinition, isExecutionPayload } from '../../core/execution/definition.ts';
import type { ExecutionEvent } from '../../core/execution/events.ts';
import { EXECUTION_TYPE, type ExecutionType, isExecutionType } from '../../core/execution/kinds.ts';
import {
  type ExecutionFailure,
  type ExecutionOutcome,
  type ExecutionState,
  executionStateOf,
  failureOf,
  outcomeOf,
} from '../../core/execution/states.ts';
import { isUuid } from '../../core/ids.ts';
import type { Job } from '../../core/job.ts';
import { decodePayload } from '../../core/payload.ts';
import { jobOwner } from '../../ledger/reads/get-job.ts';
import { foreignResource } from './client-checks.ts';
import { type Caller, type ExecutionContext, ownerOf } from './context.ts';

export type JobRequest = { readonly caller: Caller; readonly jobId: string };

/** A job as the execution API shows it. */
export type ExecutionView = {
  readonly jobId: string;
  readonly type: ExecutionType;
  readonly state: ExecutionState;
  readonly outcome: ExecutionOutcome | null;
  readonly createdAt: Date;
  readonly executionAt: Date | null;
  readonly updatedAt: Date;
  readonly attempt: number;
  readonly callback: string | null;
  /** Null if the stored payload cannot be read. */
  readonly definition: ExecutionDefinition | null;
  readonly failure: ExecutionFailure | null;
  readonly progress: number | null;
  /** When the newest attempt started. */
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
};

export async function readExecution(c: ExecutionContext, request: JobRequest): Promise<ExecutionView> {
  return viewOf(await ownedExecution(c, request));
}

/** The job, if it belongs to the caller's client and to the execution API. */
export async function ownedExecution(c: ExecutionContext, { caller, jobId: id }: JobRequest): Promise<Job> {
  if (!isUuid(id)) throw noSuchExecution(id);
  const job = await c.engine.reader.get(ownerOf(caller), id, { payload: true });
  if (job?.type === EXECUTION_TYPE) return job;
  if (job === null && !c.settings.hideForeignJobs) {
    const owner = await jobOwner(c.engine.database.api, id);
    // The caller may have submitted the job after the first read. Then it is not a foreign job. A job of another project is absent.
    const isForeign = owner?.jobType === EXECUTION_TYPE && owner.orgId !== caller.clientId;
    if (isForeign) throw foreignResource(c, caller, { kind: 'job', id });
  }
  throw noSuchExecution(id);
}

export const noSuchExecution = (id: string): AppError =>
  new AppError('NOT_FOUND', { message: `Job ${id.slice(0, 100)} does not exist.`, problem: 'RFA_JOB_NOT_FOUND' });

export function viewOf(job: Job): ExecutionView {
  const definition = definitionOf(job);
  const state = executionStateOf(job);
  const outcome = outcomeOf(state);
  return {
    jobId: job.id,
    type: definition?.type ?? typeOf(job),
    state,
    outcome,
    createdAt: job.createdAt,
    executionAt: definition?.execution_at == null ? null : new Date(definition.execution_at),
    updatedAt: job.updatedAt,
    attempt: job.attemptSlot,
    callback: job.callbackUrl,
    definition,
    failure: outcome === 'FAILED' ? failureOf(job.lastFailure) : null,
    progress: job.progress?.percent ?? null,
    startedAt: startOf(job),
    finishedAt: outcome === null ? null : (job.completedAt ?? job.updatedAt),
  };
}

/**
 * Returns null if the current attempt has not started. The recorded start is the time at which the claiming statement began, which
 * can be before the job was queued. For the first attempt, the view then shows the time at which the job was queued.
 */
function startOf({ attemptsStarted, attemptSlot, startedAt, scheduledAt }: Job): Date | null {
  if (attemptsStarted < attemptSlot || startedAt === null) return null;
  return attemptSlot === 1 && scheduledAt !== null && scheduledAt > startedAt ? scheduledAt : startedAt;
}

/** The outcome of a finished job, with every change of its state. */
export type ExecutionReport = {
  readonly jobId: string;
  readonly outcome: ExecutionOutcome;
  readonly events: readonly ExecutionEvent[];
  /** When the attempt that decided the outcome started; null if it never did. */
  readonly startedAt: Date | null;
  readonly finishedAt: Date;
  readonly durationMs: number;
  readonly failure: ExecutionFailure | null;
};

type ReportedJob = Pick<Job, 'id' | 'state' | 'attemptsStarted' | 'lastFailure'> & { readonly isLeased: boolean };

/** Null while the job is not final, and when the events are missing or newer than the job row that was read. */
export function reportOf(job: ReportedJob, events: readonly ExecutionEvent[]): ExecutionReport | null {
  const state = executionStateOf(job);
  const outcome = outcomeOf(state);
  const last = events.at(-1);
  if (outcome === null || last?.nextState !== state) return null;
  const started = events.findLast(({ eventName }) => eventName === 'job.running' || eventName === 'job.retried');
  const startedAt = started?.eventName === 'job.running' ? new Date(started.timestamp) : null;
  const finishedAt = new Date(last.timestamp);
  const durationMs = startedAt === null ? 0 : finishedAt.getTime() - startedAt.getTime();
  const failure = outcome === 'FAILED' ? failureOf(job.lastFailure) : null;
  return { jobId: job.id, outcome, events, startedAt, finishedAt, durationMs, failure };
}

export function definitionOf(job: Pick<Job, 'payload'>): ExecutionDefinition | null {
  if (job.payload.kind !== 'json') return null;
  const payload = decodePayload(job.payload);
  if (!isExecutionPayload(payload)) return null;
  const { traceparent: _, ...definition } = payload;
  return definition;
}

const typeOf = ({ tags }: Job): ExecutionType => {
  const named = tags?.fr_type;
  return isExecutionType(named) ? named : 'EXECUTE';
};
