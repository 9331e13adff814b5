import { type DurationInput, parseDuration } from '../../core/duration.ts';
import { invalidRequest } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import { isPriority, type Priority, priorityNumber } from '../../core/priority.ts';
import type { JobState } from '../../core/states.ts';
import { reservedMember } from '../../core/submission-members.ts';
import type { Engine } from '../../engine/engine.ts';
import { reportMoves } from '../../engine/report-moves.ts';
import { retryJob as retryInLedger } from '../../ledger/jobs/retry-jobs.ts';

/** The result of a retry by hand. */
export type RetryResult = {
  /** The id of the job. */
  jobId: string;
  /** NOT_RETRIABLE: the job is not in a failed final state. */
  status: 'QUEUED' | 'NOT_RETRIABLE' | 'NOT_FOUND';
  /** The state after the call. Null if the job was not queued. */
  newState: JobState | null;
  /** When the job may start. Null if it may start now. */
  scheduledFor: Date | null;
};

export type RetryParams = Owner & {
  id: string;
  resetAttempts: boolean;
  priority?: Priority;
  delay?: DurationInput;
  actor: string | null;
  requestId?: string | null;
  reason?: string | null;
};

/** Queues a failed or dead-lettered job for another attempt. */
export async function retryJob(engine: Engine, params: RetryParams): Promise<RetryResult> {
  const { orgId, projectId, id, resetAttempts, actor, requestId, reason } = params;
  if (!isUuid(id)) return { jobId: id, status: 'NOT_FOUND', newState: null, scheduledFor: null };
  const delayMs = params.delay === undefined ? null : readDelay(params.delay);
  if (params.priority !== undefined && !isPriority(params.priority))
    throw invalidRequest({
      field: 'priority',
      code: 'INVALID_VALUE',
      message: `"${params.priority}" is not a priority.`,
    });
  const retried = await retryInLedger(engine.database.api, {
    orgId,
    projectId,
    id,
    resetAttempts,
    actor,
    requestId,
    reason,
    delayMs,
    priority: params.priority === undefined ? null : priorityNumber(params.priority),
  });
  if (retried.kind === 'not_found') return { jobId: id, status: 'NOT_FOUND', newState: null, scheduledFor: null };
  if (retried.kind === 'reserved') throw invalidRequest(reservedMember('priority', retried.type));
  if (retried.kind === 'beyond_lifetime')
    throw invalidRequest({
      field: 'delay',
      code: 'BEYOND_LIFETIME',
      message: 'delay is longer than the remaining lifetime of the job: the job would expire before it starts',
    });
  if (retried.kind !== 'queued') return { jobId: id, status: 'NOT_RETRIABLE', newState: retried.state, scheduledFor: null };
  engine.hint(retried.state === 'scheduled' ? 'ready' : 'timers');
  reportMoves(engine.events, [retried.moved], { requestId });
  return { jobId: id, status: 'QUEUED', newState: retried.state, scheduledFor: retried.scheduledFor };
}

function readDelay(delay: DurationInput): number {
  const parsed = parseDuration(delay);
  if (parsed.ok) return parsed.ms;
  throw invalidRequest({ field: 'delay', code: 'INVALID_VALUE', message: parsed.message });
}
