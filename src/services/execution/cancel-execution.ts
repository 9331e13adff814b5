import { type ExecutionState, executionStateOf } from '../../core/execution/states.ts';
import type { Job } from '../../core/job.ts';
import type { JobState } from '../../core/states.ts';
import { getJob } from '../../ledger/reads/get-job.ts';
import { cancelIds } from '../jobs/cancel-job.ts';
import type { Caller, ExecutionContext } from './context.ts';
import { noSuchExecution, ownedExecution } from './read-execution.ts';
import { jobWork, traced } from './traced.ts';

export type ExecutionChange = { jobId: string; state: ExecutionState; updatedAt: Date };

/** Cancels a job at once, also one that runs. A job that has ended stays as it is, and so does its history. */
export async function cancelExecution(c: ExecutionContext, caller: Caller, id: string): Promise<ExecutionChange> {
  const job = await ownedExecution(c, caller, id);
  return traced(c, jobWork('cancel', caller, job), () => cancel(c, caller, job));
}

async function cancel(c: ExecutionContext, caller: Caller, job: Job): Promise<ExecutionChange> {
  const { clientId: orgId, actor } = caller;
  const [result] = await cancelIds(c.engine, [job.id], { orgId, actor, reason: null, force: true });
  if (result?.kind === 'cancelled') record(c, { caller, job, from: result.previousState ?? job.state });
  const after = await getJob(c.engine.database.api, orgId, job.id);
  if (after === null) throw noSuchExecution(job.id);
  return { jobId: job.id, state: executionStateOf(after), updatedAt: after.updatedAt };
}

type Cancelled = { caller: Caller; job: Job; from: JobState };

function record({ telemetry, metrics }: ExecutionContext, { caller, job, from }: Cancelled): void {
  const scenario = job.tags?.work_kind ?? 'unknown';
  metrics.canceled(scenario);
  telemetry.log.info('job.canceled', {
    ...{ request_id: caller.requestId, client_id: caller.clientId, job_id: job.id, action: 'cancel', scenario },
    ...{ current_state: executionStateOf({ ...job, state: from }), next_state: 'CANCELED' },
  });
}
