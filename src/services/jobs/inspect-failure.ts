import type { Failure } from '../../core/failure.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { jobAttempts, type RecordedAttempt } from '../../ledger/reads/job-attempts.ts';

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
  /** Null if the job is not in a failed final state now. */
  finalState: 'failed' | 'dead_letter' | null;
  totalAttempts: number;
  failure: FailureInfo;
  attempts?: readonly RecordedAttempt[];
};

export type InspectParams = Owner & { id: string; includeAllAttempts?: boolean };

export type InspectedFailure = { kind: 'failed'; details: FailureDetails } | { kind: 'never_failed' } | { kind: 'not_found' };

/** Returns the newest failure of a job, even if the job has run again since. */
export async function inspectFailure(engine: Engine, params: InspectParams): Promise<InspectedFailure> {
  const { id } = params;
  const job = isUuid(id) ? await engine.reader.get(params, id) : null;
  if (job === null) return { kind: 'not_found' };
  const { lastFailure } = job;
  // A cancelled job has not failed.
  if (lastFailure === null || lastFailure.category === 'CANCELLED') return { kind: 'never_failed' };
  const attempts = await jobAttempts(engine.database.api, params, id);
  const last = attempts.findLast(({ failure }) => failure !== null);
  const details: FailureDetails = {
    jobId: id,
    type: job.type,
    finalState: job.state === 'failed' || job.state === 'dead_letter' ? job.state : null,
    totalAttempts: attempts.length,
    failure: {
      ...lastFailure,
      attempt: last?.attempt ?? 0,
      timestamp: last?.finishedAt ?? job.updatedAt,
      durationMs: last?.finishedAt == null ? 0 : last.finishedAt.getTime() - last.startedAt.getTime(),
      workerId: last?.workerId ?? null,
      host: last?.host ?? null,
    },
  };
  return { kind: 'failed', details: params.includeAllAttempts ? { ...details, attempts } : details };
}
