import { CANCELLED_FAILURE } from '../../core/failure.ts';
import type { JobState } from '../../core/states.ts';
import type { Reason } from '../../core/transitions.ts';
import { diedText, ENTRY_COLUMNS } from '../dead-letter-entries.ts';
import { boolArray, byteaArray, int8Array, jsonArray, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { RECORD, RECORD_ID, recordedText, tookText } from '../history/record-events.ts';
import { closedText, readyText, releasedText, timedText } from '../tokens.ts';
import { leasesIn } from './complete-jobs.ts';
import { type Lease, leaseArrays } from './start-jobs.ts';

/** How an attempt ended and where its job goes. Failure and result are JSON text. */
export type SettledJob = {
  orgId: string;
  seq: number;
  leaseSeq: number;
  to: JobState;
  reason: Reason;
  /** How long a retrying job waits. Without a delay it is ready again immediately. */
  delayMs: number | null;
  failure: string | null;
  result: string | null;
  resultBytes: Uint8Array | null;
  /** Its completion waits for its joined children. */
  holds: boolean;
  /** The job did not cause the end of the attempt, so the attempt does not count. */
  refundsAttempt: boolean;
};

export type SettleParams = {
  workerId: number;
  jobs: readonly SettledJob[];
  /**
   * A worker settles by its lease and never waits for a row lock. A handler settles by its lease inside its own transaction. For the
   * jobs of a dead worker see `settle-orphans.ts`.
   */
  by: 'lease' | 'handler';
  closedClaims: readonly number[];
};

const INPUT = `input AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::int8[], $4::int8[], $5::text[], $6::text[], $7::int8[], $8::json[], $9::json[],
                       $10::bytea[], $11::bool[], $12::bool[])
    AS i(org_id, seq, lease_seq, to_state, reason, delay_ms, failure, result, result_bytes, holds, refunds)
)`;

// The children of a job that waits for them are read with the statement's snapshot, which may be older than the end of the last child.
// So a job that starts to wait adds a release of itself, and the releaser reads the children again. A job with a child that did not
// complete waits too, so that the releaser alone decides whether it fails.
const lockedText = ({ condition, lock }: SettleVariant) => `locked AS MATERIALIZED (
  SELECT i.*, i.holds AND i.to_state = 'completed' AND EXISTS (
      SELECT FROM millrace.jobs c WHERE c.org_id = j.org_id AND c.parent_seq = j.seq AND c.joins_parent
        AND (c.state IN ('pending', 'delayed', 'scheduled', 'running', 'retrying')
          OR c.joined_by = i.lease_seq AND c.state <> 'completed') OFFSET 0) AS becomes_held
  FROM input i JOIN millrace.jobs j ON j.org_id = i.org_id AND j.seq = i.seq
  WHERE j.lease_seq = i.lease_seq AND j.state = 'running' AND j.worker_id = $1::int8
    ${condition}
  ORDER BY j.seq ${lock}
)`;

// A cancel request is a promise: no further attempt follows. A final outcome stays as it is.
const HEEDED = `heeded AS MATERIALIZED (
  SELECT l.org_id, l.seq, l.result, l.result_bytes, l.refunds, l.becomes_held, l.delay_ms, s.is_stopped,
    CASE WHEN s.is_stopped THEN 'cancelled' ELSE l.to_state END AS to_state,
    CASE WHEN s.is_stopped THEN 'cancelled' ELSE l.reason END AS reason,
    CASE WHEN s.is_stopped THEN '${JSON.stringify(CANCELLED_FAILURE)}'::json ELSE l.failure END AS failure,
    l.to_state = 'retrying' AND coalesce(l.delay_ms, 0) <= 0 AND NOT s.is_stopped AS requeues,
    CASE WHEN l.to_state IN ('retrying', 'cancelled') THEN r.actor END AS actor,
    CASE WHEN l.to_state IN ('retrying', 'cancelled') AND r.reason IS NOT NULL THEN json_build_object('reason', r.reason) END AS words
  FROM locked l LEFT JOIN LATERAL millrace.take_cancel_request(l.org_id, l.seq) r ON true
  CROSS JOIN LATERAL (SELECT l.to_state = 'retrying' AND r.is_taken IS NOT NULL AS is_stopped) s
)`;

const SETTLED = `settled AS (
  UPDATE millrace.jobs j SET
    state = (CASE WHEN l.becomes_held THEN 'running' WHEN l.requeues THEN 'scheduled' ELSE l.to_state END)::millrace.job_state,
    is_held = l.becomes_held, worker_id = NULL,
    updated_at = CASE WHEN l.becomes_held THEN j.updated_at ELSE millrace.clock() END,
    completed_at = CASE WHEN l.to_state <> 'retrying' AND NOT l.becomes_held THEN millrace.clock() END,
    run_at = CASE WHEN l.to_state = 'retrying' THEN millrace.clock() + coalesce(l.delay_ms, 0) * interval '1 ms' ELSE j.run_at END,
    scheduled_at = CASE WHEN l.requeues THEN millrace.clock() ELSE j.scheduled_at END,
    attempt_slot = j.attempt_slot + l.requeues::int4,
    max_attempts = CASE WHEN l.refunds THEN least(32767, j.max_attempts + 1) ELSE j.max_attempts END,
    event_count = j.event_count + CASE WHEN l.becomes_held THEN 0 WHEN l.requeues THEN 2 ELSE 1 END,
    record_ids = j.record_ids || array_fill(${RECORD_ID}, ARRAY[CASE WHEN l.becomes_held THEN 0 WHEN l.requeues THEN 2 ELSE 1 END]),
    result = l.result, result_bytes = l.result_bytes, last_error = coalesce(l.failure, j.last_error)
  FROM heeded l WHERE j.org_id = l.org_id AND j.seq = l.seq
  RETURNING j.org_id, j.seq, j.lease_seq, j.state, j.run_at, j.order_key, j.lifetime_deadline, j.priority, j.queue, j.job_type, j.limit_id,
    j.attempts_started, j.round, j.event_count, ${ENTRY_COLUMNS}, l.to_state, l.reason, l.requeues, l.becomes_held, l.actor, l.is_stopped,
    coalesce(l.failure, l.words) AS detail, ${tookText('j.started_at')} AS took_ms,
    l.becomes_held OR (l.to_state <> 'retrying' AND (j.has_dependents OR j.joins_parent)) AS is_awaited
)`;

const TOKENS = `${readyText('settled WHERE requeues')}, ${timedText(`settled WHERE state = 'retrying'`)}, held_back AS (
  INSERT INTO millrace.waiting (dies_at, seq, org_id) SELECT lifetime_deadline, seq, org_id FROM settled WHERE becomes_held
  ON CONFLICT (org_id, seq) DO UPDATE SET dies_at = excluded.dies_at
), ${releasedText('settled')}, ${diedText(`settled WHERE state = 'dead_letter'`, 'reason')}, ${closedText('$13')}`;

// Records of the rescuer have no worker, and `checkLanded` uses that to see that the worker itself did not settle the job.
const historyText = ({ actor }: SettleVariant) => `recorded AS (
  ${recordedText({
    source: 'settled WHERE NOT becomes_held',
    from: `'running'`,
    to: 'to_state',
    reason: 'reason',
    actor: 'actor',
    n: 'event_count - requeues::int4',
    tookMs: 'took_ms',
    detail: 'detail',
    groupBy: ['to_state', 'reason', 'actor'],
    ...(actor === 'worker' ? { workerId: '$1::int8' } : {}),
  })}
), requeued AS (
  ${recordedText({
    source: 'settled WHERE requeues',
    from: `'retrying'`,
    to: `'scheduled'`,
    groupBy: ['reason'],
    reason: `CASE WHEN reason IN ('released', 'worker_lost') THEN reason ELSE 'backoff_elapsed' END`,
  })}
)`;

// Jobs of this worker that were skipped because another transaction has locked them.
const HELD = `(SELECT string_agg(i.lease_seq::text, ',') FROM input i
    JOIN millrace.jobs j ON j.org_id = i.org_id AND j.seq = i.seq AND j.lease_seq = i.lease_seq
    WHERE j.state = 'running' AND j.worker_id = $1::int8 AND NOT EXISTS (SELECT FROM locked l WHERE l.lease_seq = i.lease_seq))`;

const WAITS = 'FOR NO KEY UPDATE OF j';
const SKIPS_LOCKED = 'FOR NO KEY UPDATE OF j SKIP LOCKED';

/** The difference between a worker that settles its own jobs, a handler that does so in its transaction, and a rescuer. */
export type SettleVariant = {
  actor: 'worker' | 'rescuer';
  /** The first CTEs. */
  before: readonly string[];
  /** An additional condition on job `j`. */
  condition: string;
  lock: typeof WAITS | typeof SKIPS_LOCKED;
};

export function settleText(variant: SettleVariant): string {
  return `WITH ${[RECORD, ...variant.before, INPUT, lockedText(variant), HEEDED, SETTLED, TOKENS, historyText(variant)].join(', ')}
SELECT string_agg(lease_seq::text, ',') AS landed, string_agg(lease_seq::text, ',') FILTER (WHERE is_stopped) AS stopped,
  coalesce(bool_or(is_awaited), false) AS released, ${variant.lock === SKIPS_LOCKED ? HELD : 'NULL'} AS held FROM settled`;
}

const OWN = { actor: 'worker', before: [], condition: '' } as const;

const STATEMENTS = {
  lease: statement('settle_jobs', settleText({ ...OWN, lock: SKIPS_LOCKED })),
  handler: statement('settle_in_transaction', settleText({ ...OWN, lock: WAITS })),
} as const;

export type Settled = {
  /** Leases that ended here. A worker has lost each lease that is neither here nor in `held`. */
  landed: Set<number>;
  /** Of these, the leases of jobs that would have been retried but had a cancel request, and were cancelled. */
  stopped: Set<number>;
  /** Leases whose job another transaction holds. Nothing was written for them. */
  held: Set<number>;
  released: boolean;
};

/** Ends running attempts, each by its lease. */
export async function settleJobs(db: Queryable, params: SettleParams): Promise<Settled> {
  const [row] = await run<SettledRow>(db, STATEMENTS[params.by], settleValues(params));
  return settledOf(row);
}

export type SettledRow = { landed: string | null; stopped: string | null; held: string | null; released: boolean };

export const settledOf = (row: SettledRow | undefined): Settled => ({
  landed: leasesIn(row?.landed),
  stopped: leasesIn(row?.stopped),
  held: leasesIn(row?.held),
  released: row?.released === true,
});

export const settleValues = ({ workerId, jobs, closedClaims }: Omit<SettleParams, 'by'>): unknown[] => [
  workerId,
  uuidArray(jobs.map((job) => job.orgId)),
  int8Array(jobs.map((job) => job.seq)),
  int8Array(jobs.map((job) => job.leaseSeq)),
  textArray(jobs.map((job) => job.to)),
  textArray(jobs.map((job) => job.reason)),
  int8Array(jobs.map((job) => (job.delayMs === null ? null : Math.ceil(job.delayMs)))),
  jsonArray(jobs.map((job) => job.failure)),
  jsonArray(jobs.map((job) => (job.to === 'completed' ? job.result : null))),
  byteaArray(jobs.map((job) => (job.to === 'completed' ? job.resultBytes : null))),
  boolArray(jobs.map((job) => job.holds)),
  boolArray(jobs.map((job) => job.refundsAttempt)),
  int8Array(closedClaims),
];

// OFFSET 0, here and above, keeps the planner from evaluating EXISTS by a hash of the whole table.
const CHECK = statement(
  'check_landed',
  `SELECT i.lease_seq FROM unnest($1::uuid[], $2::int8[], $3::int8[]) AS i(org_id, seq, lease_seq)
  JOIN millrace.jobs j ON j.org_id = i.org_id AND j.seq = i.seq AND j.started_lease_seq = i.lease_seq
  WHERE j.is_held OR EXISTS (
    SELECT FROM millrace.events e WHERE e.record_id = ANY (j.record_ids) AND e.org_id = i.org_id AND e.job_seq = i.seq
      AND e.lease_seq = i.lease_seq AND e.from_state = 'running' AND e.worker_id IS NOT NULL OFFSET 0)`,
);

/**
 * Returns the attempts that their own worker has already ended: its statement was committed, but its result was lost. An attempt that
 * the rescuer ended, or that has a successor, is lost.
 */
export async function checkLanded(db: Queryable, jobs: readonly Lease[]): Promise<Set<number>> {
  const rows = await run<{ lease_seq: number }>(db, CHECK, leaseArrays(jobs));
  return new Set(rows.map((row) => row.lease_seq));
}
