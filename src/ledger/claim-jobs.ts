import { int2Array, int8Array, textArray } from './binary-array.ts';
import { candidatesText, IS_STILL_THERE, lanesText, leasedText } from './claim-text.ts';
import { type Queryable, run, statement } from './statement.ts';
import { CORRELATION, type Lane, type StartedJob, startedText } from './take-jobs.ts';

/** A job under lease that has not started: `attemptsStarted` does not count the attempt to come. */
export type ClaimedJob = StartedJob;

export type ClaimParams = { workerId: number; lanes: readonly Lane[]; limit: number; claimNo: number };

// A lease is no state: the row stays scheduled and no event is written until the attempt starts.
const CLAIM = statement(
  'claim_jobs',
  `WITH lanes AS MATERIALIZED (${lanesText(2)}
), candidates AS MATERIALIZED (${candidatesText({ limit: 6, runs: 6 })}
), ${leasedText(6)}
, claimed AS (
  UPDATE millrace.jobs j SET worker_id = $1::int8, lease_seq = l.lease_seq
  FROM leased l WHERE j.org_id = l.org_id AND j.seq = l.seq AND ${IS_STILL_THERE}
  RETURNING j.org_id, j.seq, j.id, j.lease_seq, j.started_lease_seq, j.job_type, j.queue, j.priority, l.order_key,
    j.attempts_started, j.max_attempts, j.policy_id, j.created_at, j.lifetime_deadline, j.payload, j.payload_bytes,
    j.idempotency_key, ${CORRELATION}, j.traceparent, j.tags
), noted AS (
  INSERT INTO millrace.claims (worker_id, claim_no, org_id, job_type, seqs)
  SELECT $1::int8, $7::int8, org_id, job_type, array_agg(seq) FROM claimed GROUP BY org_id, job_type
)
SELECT ${startedText('started_lease_seq')} FROM claimed`,
);

/** Leases ready jobs to a worker without starting them. */
export async function claimJobs(
  db: Queryable,
  { workerId, lanes, limit, claimNo }: ClaimParams,
): Promise<ClaimedJob[]> {
  return run<StartedJob>(db, CLAIM, [
    workerId,
    textArray(lanes.map((lane) => lane.queue)),
    textArray(lanes.map((lane) => lane.jobType)),
    int2Array(lanes.map((lane) => lane.priority)),
    int8Array(lanes.map((lane) => lane.floor)),
    limit,
    claimNo,
  ]);
}
