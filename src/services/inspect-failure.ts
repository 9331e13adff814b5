import type { Failure } from '../core/failure.ts';
import { isUuid } from '../core/ids.ts';
import type { JobState } from '../core/states.ts';
import type { Engine } from '../engine/engine.ts';
import { jobAttempts, type RecordedAttempt } from '../ledger/job-attempts.ts';

export type FailureInfo = Failure & {
  attempt: number;
  timestamp: Date;
  durationMs: number;
  workerId: string | null;
  host: string | null;
};

export type FailureDetails = {
  jobId: string;
  type: string;
  /** Null while the job waits for its next attempt. */
  finalState: 'failed' | 'dead_letter' | null;
  totalAttempts: number;
  failure: FailureInfo;
  attempts?: readonly RecordedAttempt[];
};

export type InspectParams = { orgId: string; includeAllAttempts?: boolean };

const SHOWN: readonly JobState[] = ['failed', 'dead_letter', 'retrying'];

/** Why a job failed. Null when it does not exist or never failed. */
export async function inspectFailure(
  engine: Engine,
  id: string,
  params: InspectParams,
): Promise<FailureDetails | null> {
  if (!isUuid(id)) return null;
  const job = await engine.reader.get(params.orgId, id);
  if (job === null || job.lastFailure === null || !SHOWN.includes(job.state)) return null;
  const attempts = await jobAttempts(engine.database.api, params.orgId, id);
  const last = attempts.at(-1);
  const details: FailureDetails = {
    jobId: id,
    type: job.type,
    finalState: job.state === 'failed' || job.state === 'dead_letter' ? job.state : null,
    totalAttempts: attempts.length,
    failure: {
      ...job.lastFailure,
      attempt: last?.attempt ?? 0,
      timestamp: last?.finishedAt ?? job.updatedAt,
      durationMs: last?.finishedAt == null ? 0 : last.finishedAt.getTime() - last.startedAt.getTime(),
      workerId: last?.workerId ?? null,
      host: last?.host ?? null,
    },
  };
  return params.includeAllAttempts ? { ...details, attempts } : details;
}
