import type { Failure } from '../../core/failure.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { jobAttempts, type RecordedAttempt } from '../../ledger/reads/job-attempts.ts';

/** A failure, and the attempt that failed. */
export type FailureInfo = Failure & {
  /** The number of the attempt. The first is 1. */
  attempt: number;
  /** When it failed. */
  timestamp: Date;
  /** How long the attempt ran. */
  durationMs: number;
  /** The worker that ran it. */
  workerId: string | null;
  /** The machine of that worker. */
  host: string | null;
};

/** The newest failure of a job. */
export type FailureDetails = {
  /** The id of the job. */
  jobId: string;
  /** The job type. */
  type: string;
  /** Null if the job is not in a failed final state now. */
  finalState: 'failed' | 'dead_letter' | null;
  /** The attempts started so far. */
  totalAttempts: number;
  /** The newest failure. */
  failure: FailureInfo;
  /** All attempts, if asked for. */
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
  const attempts = await jobAttempts(engine.database.reads.of(params.orgId), params, id);
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
