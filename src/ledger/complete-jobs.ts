import { int8Array, jsonArray, uuidArray } from './binary-array.ts';
import { countedText, RECORD, recordedText, tookText } from './record-events.ts';
import { type Queryable, run, statement } from './statement.ts';

/** A job whose handler returned; its result is JSON text. */
type FinishedJob = { orgId: string; seq: number; leaseSeq: number; result: string | null };

export type CompleteParams = {
  workerId: number;
  finished: readonly FinishedJob[];
  /** Claims whose jobs have all ended. */
  closedClaims: readonly number[];
};

// The hot path out: what plainly succeeded. Everything else that can become of an attempt is settled by \`settle-jobs.ts\`.
const COMPLETE = statement(
  'complete_jobs',
  `WITH ${RECORD}, finished AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::int8[], $4::int8[], $5::json[]) AS f(org_id, seq, lease_seq, result)
), done AS (
  UPDATE millrace.jobs j SET state = 'completed', result = f.result, completed_at = millrace.clock(),
    updated_at = millrace.clock(), worker_id = NULL, ${countedText()}
  FROM finished f
  WHERE j.org_id = f.org_id AND j.seq = f.seq AND j.lease_seq = f.lease_seq AND j.state = 'running' AND j.worker_id = $1::int8
  RETURNING j.org_id, j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round,
    ${tookText('j.started_at')} AS took_ms, j.has_dependents OR j.joins_parent AS is_awaited
), released AS (
  INSERT INTO millrace.releases (org_id, seq) SELECT org_id, seq FROM done WHERE is_awaited
), closed AS (
  DELETE FROM millrace.claims c USING unnest($6::int8[]) AS k(claim_no) WHERE c.worker_id = $1::int8 AND c.claim_no = k.claim_no
), recorded AS (
  ${recordedText({
    ...{ source: 'done', from: `'running'`, to: `'completed'`, reason: `'succeeded'` },
    ...{ workerId: '$1::int8', tookMs: 'took_ms' },
  })}
)
SELECT string_agg(lease_seq::text, ',') AS landed, coalesce(bool_or(is_awaited), false) AS released FROM done`,
);

/** Completes jobs, each by its lease. What is absent from `landed` was no longer this worker's to complete. */
export async function completeJobs(
  db: Queryable,
  { workerId, finished, closedClaims }: CompleteParams,
): Promise<{ landed: Set<number>; released: boolean }> {
  const [row] = await run<{ landed: string | null; released: boolean }>(db, COMPLETE, [
    workerId,
    uuidArray(finished.map((job) => job.orgId)),
    int8Array(finished.map((job) => job.seq)),
    int8Array(finished.map((job) => job.leaseSeq)),
    jsonArray(finished.map((job) => job.result)),
    int8Array(closedClaims),
  ]);
  const landed = row?.landed ?? null;
  return { landed: new Set(landed === null ? [] : landed.split(',').map(Number)), released: row?.released === true };
}
