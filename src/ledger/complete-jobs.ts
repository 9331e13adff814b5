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

const IS_OURS = `j.org_id = f.org_id AND j.seq = f.seq AND j.lease_seq = f.lease_seq AND j.state = 'running' AND j.worker_id = $1::int8`;

// The plain statement locks rows as it updates them, and so waits for a lock that a handler's own transaction may hold. Its session
// has a short lock timeout; a batch that meets a lock is sent again by the second statement, which skips locked rows and names them.
// To lock rows first costs a second write of each row's header, so it is not the rule.
const LOCKING = `, free AS MATERIALIZED (
  SELECT f.* FROM finished f JOIN millrace.jobs j ON ${IS_OURS} ORDER BY j.seq FOR NO KEY UPDATE OF j SKIP LOCKED
), held AS MATERIALIZED (
  SELECT f.lease_seq FROM finished f JOIN millrace.jobs j ON ${IS_OURS}
  WHERE NOT EXISTS (SELECT FROM free WHERE free.lease_seq = f.lease_seq)
)`;

// The hot path out: plain successes. `settle-jobs.ts` writes every other end of an attempt.
function completeText({ skipsLocked }: { skipsLocked: boolean }): string {
  return `WITH ${RECORD}, finished AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::int8[], $4::int8[], $5::json[]) AS f(org_id, seq, lease_seq, result)
)${skipsLocked ? LOCKING : ''}, done AS (
  UPDATE millrace.jobs j SET state = 'completed', result = f.result, completed_at = millrace.clock(),
    updated_at = millrace.clock(), worker_id = NULL, ${countedText()}
  FROM ${skipsLocked ? 'free' : 'finished'} f WHERE ${IS_OURS}
  RETURNING j.org_id, j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round,
    ${tookText('j.started_at')} AS took_ms, j.has_dependents OR j.joins_parent AS is_awaited
), released AS (
  INSERT INTO millrace.releases (org_id, seq) SELECT org_id, seq FROM done WHERE is_awaited
), closed AS (
  DELETE FROM millrace.claims c USING unnest($6::int8[]) AS k(claim_no) WHERE c.worker_id = $1::int8 AND c.claim_no = k.claim_no
), recorded AS (
  ${recordedText({
    source: 'done',
    from: `'running'`,
    to: `'completed'`,
    reason: `'succeeded'`,
    workerId: '$1::int8',
    tookMs: 'took_ms',
  })}
)
SELECT string_agg(lease_seq::text, ',') AS landed, coalesce(bool_or(is_awaited), false) AS released,
  ${skipsLocked ? `(SELECT string_agg(lease_seq::text, ',') FROM held)` : 'NULL'} AS held FROM done`;
}

const COMPLETE = statement('complete_jobs', completeText({ skipsLocked: false }));
const COMPLETE_UNLOCKED = statement('complete_unlocked_jobs', completeText({ skipsLocked: true }));

export type Completed = {
  /** Leases that ended here. A lease that is neither here nor held was no longer this worker's to complete. */
  landed: Set<number>;
  /** Leases whose job another transaction holds: nothing was written for them. */
  held: Set<number>;
  released: boolean;
};

type Row = { landed: string | null; released: boolean; held: string | null };

/** Completes jobs, each by its lease. With `skipsLocked` it waits for no row lock; else it throws once one lasts too long. */
export async function completeJobs(
  db: Queryable,
  { workerId, finished, closedClaims }: CompleteParams,
  { skipsLocked = false }: { skipsLocked?: boolean } = {},
): Promise<Completed> {
  const values = [
    workerId,
    uuidArray(finished.map((job) => job.orgId)),
    int8Array(finished.map((job) => job.seq)),
    int8Array(finished.map((job) => job.leaseSeq)),
    jsonArray(finished.map((job) => job.result)),
    int8Array(closedClaims),
  ];
  const [row] = await run<Row>(db, skipsLocked ? COMPLETE_UNLOCKED : COMPLETE, values, { maxTries: 1 });
  return { landed: leasesIn(row?.landed), held: leasesIn(row?.held), released: row?.released === true };
}

/** A list of lease numbers, as statements return it. */
export const leasesIn = (list: string | null | undefined): Set<number> =>
  new Set(list == null ? [] : list.split(',').map(Number));
