import { int8Array } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { countedText, RECORD, recordedText } from '../history/record-events.ts';
import { closedText, readyText, releasedText } from '../tokens.ts';
import { leasesIn } from './complete-jobs.ts';
import { type Lease, leaseArrays } from './start-jobs.ts';
import { BEAT } from './watch-workers.ts';

/**
 * The worker's row, locked so that no heartbeat comes in between. The parameter contains the beat that the rescuer saw. The statement
 * does not wait for the lock: its holder is most likely writing a beat.
 */
export const lockedWorkerText = (beatParameter: string): string => `worker AS MATERIALIZED (
  SELECT w.beat_at, w.stopped_at IS NOT NULL AS is_stopped, ${BEAT} = ${beatParameter}::int8 AS is_unchanged
  FROM millrace.workers w WHERE w.id = $1::int8 FOR UPDATE SKIP LOCKED
)`;

/** True if the beat of worker `w` is older than the lease of job `j`, or was written before the database's clock was set back. */
export const isOutdated = (lease: string): string =>
  `(w.beat_at + ${lease} < millrace.clock() OR w.beat_at > millrace.clock() + interval '1 minute')`;

/** Whether the locked worker stopped, or has sent no beat since the rescuer looked for longer than the lease of job `j`. */
export const IS_SILENT = `(NOT EXISTS (SELECT FROM millrace.workers g WHERE g.id = $1::int8)
    OR coalesce((SELECT w.is_stopped OR (w.is_unchanged AND ${isOutdated(`(SELECT (p.body->>'leaseMs')::float8 * interval '1 ms'
      FROM millrace.policies p WHERE p.id = j.policy_id)`)}) FROM worker w), false))`;

const IS_HELD = `j.org_id = i.org_id AND j.seq = i.seq AND j.lease_seq = i.lease_seq AND j.state = 'scheduled' AND j.worker_id = $1::int8`;

/** The difference between a worker that returns its leases and a rescuer that returns the leases of a dead worker. */
type ReturnVariant = {
  /** The first and the last CTEs. */
  before: readonly string[];
  after: readonly string[];
  condition: string;
  lock: string;
};

// Cancelling a job that is leased ahead only records a request, because its handler may already be running. When the job is returned, we
// know that it did not run, so this statement cancels it. It reads the request after it has locked the row, so that it sees requests that
// arrived while it waited for the lock.
const returnText = ({
  before,
  after,
  condition,
  lock,
}: ReturnVariant): string => `WITH ${[RECORD, ...before].join(', ')}, locked AS MATERIALIZED (
  SELECT j.org_id, j.seq FROM unnest($2::uuid[], $3::int8[], $4::int8[]) AS i(org_id, seq, lease_seq)
  JOIN millrace.jobs j ON ${IS_HELD} ${condition} ORDER BY j.seq ${lock}
), heeded AS MATERIALIZED (
  SELECT l.org_id, l.seq, r.is_taken IS NOT NULL AS is_cancelled, r.reason, r.actor
  FROM locked l LEFT JOIN LATERAL millrace.take_cancel_request(l.org_id, l.seq) r ON true
), returned AS (
  UPDATE millrace.jobs j SET worker_id = NULL FROM heeded h WHERE j.org_id = h.org_id AND j.seq = h.seq AND NOT h.is_cancelled
  RETURNING j.seq, j.order_key, j.lifetime_deadline, j.org_id, j.priority, j.queue, j.job_type, j.limit_id, j.lease_seq
), ${readyText('returned')}, cancelled AS (
  UPDATE millrace.jobs j SET worker_id = NULL, state = 'cancelled', completed_at = millrace.clock(), updated_at = millrace.clock(),
    ${countedText()}
  FROM heeded h WHERE j.org_id = h.org_id AND j.seq = h.seq AND h.is_cancelled
  RETURNING j.org_id, j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round,
    j.has_dependents OR j.joins_parent AS is_awaited, h.actor,
    CASE WHEN h.reason IS NOT NULL THEN json_build_object('reason', h.reason) END AS detail
), ${releasedText('cancelled')}, recorded AS (
  ${recordedText({
    source: 'cancelled',
    from: `'scheduled'`,
    to: `'cancelled'`,
    reason: `'cancelled'`,
    actor: 'actor',
    detail: 'detail',
    groupBy: ['actor'],
  })}
)${after.map((each) => `, ${each}`).join('')}
SELECT (SELECT string_agg(lease_seq::text, ',') FROM returned) AS returned,
  (SELECT string_agg(lease_seq::text, ',') FROM cancelled) AS cancelled,
  coalesce((SELECT bool_or(is_awaited) FROM cancelled), false) AS released`;

const RETURN = statement(
  'return_jobs',
  returnText({
    before: [],
    after: [closedText('$5')],
    condition: '',
    lock: 'FOR NO KEY UPDATE OF j',
  }),
);

// Skips jobs that a transaction holds. The rescuer finds them again in its next round.
const RETURN_EXPIRED = statement(
  'return_expired_jobs',
  returnText({
    before: [lockedWorkerText('$5')],
    after: [],
    condition: `WHERE ${IS_SILENT}`,
    lock: 'FOR NO KEY UPDATE OF j SKIP LOCKED',
  }),
);

export type ReturnParams = { workerId: number; jobs: readonly Lease[]; closedClaims: readonly number[] };

export type Returned = {
  /** Leases of jobs that are ready again. */
  landed: Set<number>;
  /** Leases of jobs that ended because of a cancel request. */
  cancelled: Set<number>;
  released: boolean;
};

type ReturnedRow = { returned: string | null; cancelled: string | null; released: boolean };

/** Returns leases whose attempt never started. The jobs are ready again, and their history does not change. */
export async function returnJobs(db: Queryable, params: ReturnParams): Promise<Returned> {
  const values = [params.workerId, ...leaseArrays(params.jobs), int8Array(params.closedClaims)];
  return returnedOf(await run<ReturnedRow>(db, RETURN, values));
}

const returnedOf = ([row]: readonly ReturnedRow[]): Returned => ({
  landed: leasesIn(row?.returned),
  cancelled: leasesIn(row?.cancelled),
  released: row?.released === true,
});

export type RescueParams = {
  workerId: number;
  /** The last beat that the rescuer saw; null for a worker without a row. */
  beat: number | null;
};

/** Like `returnJobs`, but returns the leases of a worker that fell silent, unless it sent a beat since. */
export async function returnExpired(db: Queryable, { workerId, beat, jobs }: RescueParams & { jobs: readonly Lease[] }): Promise<Returned> {
  return returnedOf(await run<ReturnedRow>(db, RETURN_EXPIRED, [workerId, ...leaseArrays(jobs), beat]));
}
