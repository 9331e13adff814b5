import { AppError } from '../../core/errors.ts';
import { type ExecutionDefinition, isExecutionPayload } from '../../core/execution/definition.ts';
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
import { jobOwner } from '../../ledger/reads/job-owner.ts';
import type { Caller, ExecutionContext } from './context.ts';

/** A job in the words of the execution API. */
export type ExecutionView = {
  readonly jobId: string;
  readonly type: ExecutionType;
  readonly state: ExecutionState;
  /** Null until the state is final. */
  readonly outcome: ExecutionOutcome | null;
  readonly createdAt: Date;
  /** What was asked for; null for a job that was due at once. */
  readonly executionAt: Date | null;
  readonly updatedAt: Date;
  readonly attempt: number;
  readonly callback: string | null;
  /** Null where the stored one cannot be read. */
  readonly definition: ExecutionDefinition | null;
  readonly failure: ExecutionFailure | null;
  readonly progress: number | null;
  /** Of the newest attempt that was granted. */
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
};

export async function readExecution(c: ExecutionContext, caller: Caller, id: string): Promise<ExecutionView> {
  return viewOf(await ownedExecution(c, caller, id));
}

/** The job, if it is one of this surface and of this client. */
export async function ownedExecution(c: ExecutionContext, caller: Caller, id: string): Promise<Job> {
  if (!isUuid(id)) throw noSuchExecution(id);
  const job = await c.engine.reader.get(caller.clientId, id);
  if (job?.type === EXECUTION_TYPE) return job;
  if (job === null && !c.settings.hideForeignJobs) await refuseForeign(c, caller, id);
  throw noSuchExecution(id);
}

async function refuseForeign(c: ExecutionContext, caller: Caller, id: string): Promise<void> {
  const owner = await jobOwner(c.engine.database.api, id);
  // What became this client's since it was looked for is none of a stranger's.
  if (owner === null || owner.jobType !== EXECUTION_TYPE || owner.orgId === caller.clientId) return;
  const { requestId, clientId } = caller;
  const reason = 'the job belongs to another client';
  c.telemetry.log.warn('access refused', { request_id: requestId, client_id: clientId, job_id: id, reason });
  throw new AppError('FORBIDDEN', { message: `Job ${id} belongs to another client.`, problem: 'RFA_AUTH_FORBIDDEN' });
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
 * An attempt that was granted and never started has no start, whatever the one before it had. A worker's statement may have
 * begun to wait before the job that it then took was there: a job is not shown to start before it was queued.
 */
function startOf({ attemptsStarted, attemptSlot, startedAt, scheduledAt }: Job): Date | null {
  if (attemptsStarted < attemptSlot || startedAt === null) return null;
  return attemptSlot === 1 && scheduledAt !== null && scheduledAt > startedAt ? scheduledAt : startedAt;
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
