import { int8Array } from './binary-array.ts';
import { type Lease, leaseArrays } from './start-jobs.ts';
import { type Queryable, run, statement } from './statement.ts';

/** The worker's row, locked so that no heartbeat comes in between. A worker without a row is gone for good. */
export const LOCKED_WORKER = `worker AS MATERIALIZED (
  SELECT beat_at, stopped_at IS NOT NULL AS is_stopped FROM millrace.workers WHERE id = $1::int8 FOR UPDATE
)`;

/** Whether the locked worker has been silent for longer than the lease of job `j` lasts. */
export const IS_SILENT = `coalesce((SELECT w.is_stopped OR w.beat_at + (SELECT (p.body->>'leaseMs')::float8 * interval '1 ms'
    FROM millrace.policies p WHERE p.id = j.policy_id) < millrace.clock() FROM worker w), true)`;

function returnText(by: 'lease' | 'dead_worker'): string {
  return `
WITH ${by === 'dead_worker' ? `${LOCKED_WORKER}, ` : ''}input AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::int8[], $4::int8[]) AS i(org_id, seq, lease_seq)
), returned AS (
  UPDATE millrace.jobs j SET worker_id = NULL FROM input i
  WHERE j.org_id = i.org_id AND j.seq = i.seq AND j.lease_seq = i.lease_seq AND j.state = 'scheduled' AND j.worker_id = $1::int8
    ${by === 'dead_worker' ? `AND ${IS_SILENT}` : ''}
  RETURNING j.seq, j.order_key, j.lifetime_deadline, j.org_id, j.priority, j.queue, j.job_type, j.lease_seq
), made_ready AS (
  INSERT INTO millrace.ready (order_key, dies_at, org_id, priority, queue, job_type, seqs)
  SELECT order_key, lifetime_deadline, org_id, priority, queue, job_type, ARRAY[seq] FROM returned
), closed AS (
  DELETE FROM millrace.claims c USING unnest($5::int8[]) AS k(claim_no) WHERE c.worker_id = $1::int8 AND c.claim_no = k.claim_no
)
SELECT lease_seq FROM returned`;
}

const RETURN = statement('return_jobs', returnText('lease'));
const RETURN_EXPIRED = statement('return_expired_jobs', returnText('dead_worker'));

export type ReturnParams = { workerId: number; jobs: readonly Lease[]; closedClaims: readonly number[] };

/** Gives back leases whose attempt never started: the jobs are ready again and their history shows nothing. */
export async function returnJobs(db: Queryable, params: ReturnParams): Promise<{ landed: Set<number> }> {
  const values = [params.workerId, ...leaseArrays(params.jobs), int8Array(params.closedClaims)];
  const rows = await run<{ lease_seq: number }>(db, RETURN, values);
  return { landed: new Set(rows.map((row) => row.lease_seq)) };
}

/** The same for a worker that fell silent, unless its heartbeat came back meanwhile. */
export async function returnExpired(
  db: Queryable,
  params: Omit<ReturnParams, 'closedClaims'>,
): Promise<{ landed: Set<number> }> {
  const values = [params.workerId, ...leaseArrays(params.jobs), int8Array([])];
  const rows = await run<{ lease_seq: number }>(db, RETURN_EXPIRED, values);
  return { landed: new Set(rows.map((row) => row.lease_seq)) };
}
