import { AppError } from '../../core/errors.ts';
import { type ExecutionState, executionStateOf } from '../../core/execution/states.ts';
import type { Job } from '../../core/job.ts';
import { retryJob } from '../../ledger/jobs/retry-jobs.ts';
import type { Caller, ExecutionContext } from './context.ts';
import { ownedExecution } from './read-execution.ts';
import { jobWork, traced } from './traced.ts';

export type RetriedExecution = { jobId: string; state: ExecutionState; updatedAt: Date; attempt: number };

/** Queues a failed job for its next attempt. A job in any other state stays as it is; one without attempts left is a conflict. */
export async function retryExecution(c: ExecutionContext, caller: Caller, id: string): Promise<RetriedExecution> {
  const job = await ownedExecution(c, caller, id);
  return traced(c, jobWork('retry', caller, job), () => retry(c, caller, job));
}

async function retry(c: ExecutionContext, caller: Caller, job: Job): Promise<RetriedExecution> {
  const retried = await retryJob(c.engine.database.api, {
    ...{ orgId: caller.clientId, id: job.id, actor: caller.actor },
    ...{ resetAttempts: false, priority: null, delayMs: null, takesOver: true },
  });
  if (retried.kind === 'exhausted') throw exhausted(job.id);
  if (retried.kind !== 'queued') return unchanged(await ownedExecution(c, caller, job.id));
  c.engine.hint(retried.state === 'scheduled' ? 'ready' : 'timers');
  record(c, caller, job);
  return { jobId: job.id, state: 'QUEUED', updatedAt: retried.updatedAt, attempt: retried.attemptSlot };
}

function unchanged(job: Job): RetriedExecution {
  return { jobId: job.id, state: executionStateOf(job), updatedAt: job.updatedAt, attempt: job.attemptSlot };
}

function record({ telemetry, metrics }: ExecutionContext, caller: Caller, { id, tags }: Job): void {
  metrics.retried(true);
  telemetry.log.info('job.retried', {
    ...{ request_id: caller.requestId, client_id: caller.clientId, job_id: id, action: 'retry' },
    ...{ scenario: tags?.work_kind, current_state: 'FAILED', next_state: 'QUEUED', reason: 'manual' },
  });
}

const exhausted = (id: string): AppError =>
  new AppError('CONFLICT', {
    message: `Job ${id} has had all the attempts it may have and stays FAILED.`,
    problem: 'RFA_JOB_CONFLICT',
  });
