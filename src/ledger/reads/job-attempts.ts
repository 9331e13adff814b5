import { FAILURE_CATEGORIES, type Failure } from '../../core/failure.ts';
import { attemptIdOf } from '../../core/ids.ts';
import { type AttemptInfo, attemptResult } from '../../core/job.ts';
import type { Owner } from '../../core/owner.ts';
import type { JobState } from '../../core/states.ts';
import type { Reason } from '../../core/transitions.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// An attempt begins with a `running` event and ends with the next event of the job.
const ATTEMPTS = statement(
  'job_attempts',
  `SELECT * FROM (
     SELECT j.id, e.n, e.to_state, e.attempt, e.round, e.lease_seq, e.at AS started_at, w.name AS worker_name, w.host,
            lead(e.at) OVER by_n AS finished_at, lead(e.to_state) OVER by_n AS end_state,
            lead(e.reason) OVER by_n AS end_reason, lead(e.detail::text) OVER by_n AS end_detail
     FROM millrace.jobs j JOIN millrace.events e ON e.record_id = ANY (j.record_ids) AND e.org_id = j.org_id AND e.job_seq = j.seq
     LEFT JOIN millrace.workers w ON w.id = e.worker_id
     WHERE j.id = $2::uuid AND (j.org_id = $1::uuid) IS TRUE AND ($3::uuid IS NULL OR j.project_id = $3::uuid)
     WINDOW by_n AS (ORDER BY e.n)
   ) history WHERE to_state = 'running' ORDER BY n`,
);

type Row = {
  id: string;
  attempt: number;
  round: number;
  lease_seq: number | string;
  started_at: Date | string;
  finished_at: Date | string | null;
  worker_name: string | null;
  host: string | null;
  end_state: JobState | null;
  end_reason: Reason | null;
  end_detail: string | null;
};

/** `round` distinguishes attempts with the same number: a manual retry may start the count again. */
export type RecordedAttempt = AttemptInfo & { readonly round: number };

export async function jobAttempts(db: Queryable, { orgId, projectId }: Owner, id: string): Promise<RecordedAttempt[]> {
  const rows = await run<Row>(db, ATTEMPTS, [orgId, id, projectId]);
  return rows.map((row) => {
    const failure = failureOf(row);
    return {
      attempt: row.attempt,
      attemptId: attemptIdOf(row.id, Number(row.lease_seq)),
      round: row.round,
      startedAt: new Date(row.started_at),
      finishedAt: row.finished_at === null ? null : new Date(row.finished_at),
      result: row.end_state === null || row.end_reason === 'postponed' ? null : attemptResult(failure),
      failure,
      workerId: row.worker_name,
      host: row.host,
    };
  });
}

// The event of a cancellation has no failure in its detail, so the attempt gets one here.
function failureOf({ end_state, end_reason, end_detail }: Row): Failure | null {
  if (end_state === null || end_state === 'completed' || end_reason === 'postponed') return null;
  const detail: unknown = end_detail === null ? null : JSON.parse(end_detail);
  if (isFailure(detail)) return detail;
  if (end_state === 'cancelled') return { category: 'CANCELLED', code: 'CANCELLED', message: 'the job was cancelled' };
  return {
    category: 'SYSTEM',
    code: (end_reason ?? 'unknown').toUpperCase(),
    message: 'the attempt ended without a recorded failure',
  };
}

function isFailure(detail: unknown): detail is Failure {
  if (typeof detail !== 'object' || detail === null || !('category' in detail) || !('code' in detail)) return false;
  return FAILURE_CATEGORIES.some((category) => category === detail.category);
}
