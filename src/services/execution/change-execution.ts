import { AppError } from '../../core/errors.ts';
import { type ExecutionState, executionStateOf } from '../../core/execution/states.ts';
import type { JobSummary } from '../../core/job.ts';
import { reportMoves } from '../../engine/report-moves.ts';
import { retryJob } from '../../ledger/jobs/retry-jobs.ts';
import { getJob } from '../../ledger/reads/get-job.ts';
import { cancelIds } from '../jobs/cancel-job.ts';
import { type Caller, type ExecutionContext, ownerOf } from './context.ts';
import { type JobRequest, noSuchExecution, ownedExecution } from './read-execution.ts';
import { jobWork, traced } from './traced.ts';

/** A job after a cancel or a retry. */
export type ExecutionChange = {
  readonly jobId: string;
  readonly state: ExecutionState;
  readonly updatedAt: Date;
  readonly attempt: number;
};

/** Cancels a job immediately, even while it runs. A job that has ended does not change. */
export async function cancelExecution(c: ExecutionContext, request: JobRequest): Promise<ExecutionChange> {
  const job = await ownedExecution(c, request);
  return traced(c, jobWork('cancel', request.caller, job), () => cancel(c, request.caller, job));
}

async function cancel(c: ExecutionContext, caller: Caller, job: JobSummary): Promise<ExecutionChange> {
  const owner = ownerOf(caller);
  await cancelIds(c.engine, {
    ids: [job.id],
    ...owner,
    actor: caller.actor,
    requestId: caller.requestId,
    reason: null,
    force: true,
  });
  const after = await getJob(c.engine.database.reads.of(owner.orgId), owner, job.id);
  if (after === null) throw noSuchExecution(job.id);
  return changeOf(after);
}

/** Queues a failed job for its next attempt. A job in any other state does not change. */
export async function retryExecution(c: ExecutionContext, request: JobRequest): Promise<ExecutionChange> {
  const job = await ownedExecution(c, request);
  return traced(c, jobWork('retry', request.caller, job), () => retry(c, request.caller, job));
}

async function retry(c: ExecutionContext, caller: Caller, job: JobSummary): Promise<ExecutionChange> {
  const retried = await retryJob(c.engine.database.api, {
    ...ownerOf(caller),
    id: job.id,
    actor: caller.actor,
    requestId: caller.requestId,
    resetAttempts: false,
    priority: null,
    delayMs: null,
    takesOver: true,
  });
  if (retried.kind === 'exhausted') {
    throw new AppError('CONFLICT', {
      message: `Job ${job.id} has no attempts left and stays FAILED.`,
      problem: 'RFA_JOB_CONFLICT',
    });
  }
  if (retried.kind !== 'queued') return changeOf(await ownedExecution(c, { caller, jobId: job.id }));
  c.engine.hint(retried.state === 'scheduled' ? 'ready' : 'timers');
  reportMoves(c.engine.events, [retried.moved], caller);
  return { jobId: job.id, state: 'QUEUED', updatedAt: retried.updatedAt, attempt: retried.attemptSlot };
}

const changeOf = (job: JobSummary): ExecutionChange => ({
  jobId: job.id,
  state: executionStateOf(job),
  updatedAt: job.updatedAt,
  attempt: job.attemptSlot,
});
