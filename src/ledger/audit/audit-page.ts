import type pg from 'pg';
import { CATEGORY_NAMES } from '../../core/governance/categories.ts';
import type { JobState } from '../../core/states.ts';
import type { Reason } from '../../core/transitions.ts';
import { HORIZON } from '../driver/horizon.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { eventsIn, type Position, recordsBefore, recordsFrom, unreadRecords } from '../history/positions.ts';

/** The jobs whose own events are in the trail. Requested actions always are. */
export type AuditedJobs = 'governed' | 'all';

const GOVERNED = `category IN (${CATEGORY_NAMES.map((name) => `'${name}'`).join(', ')})`;

// Most rounds find nothing. This check takes no lock, no transaction number and no write.
const PEEK = statement(
  'audit_peek',
  `WITH h AS MATERIALIZED (SELECT ${HORIZON} AS xmin)
   SELECT coalesce((SELECT r.txid FROM millrace.records r WHERE ${unreadRecords('audit')} ORDER BY r.txid, r.id LIMIT 1) < h.xmin, false)
     OR coalesce((SELECT a.txid FROM millrace.audit_actions a ORDER BY a.txid, a.id LIMIT 1) < h.xmin, false) AS has_events
   FROM h`,
);

// As for the outbox, the hold saves other processes the same work and protects nothing: a write checks that the position and the last id
// are unchanged.
const HOLD = statement(
  'audit_hold',
  `UPDATE millrace.projections p SET holder = $1::uuid, held_until = clock_timestamp() + $2::float8 * interval '1 ms'
   FROM (SELECT name FROM millrace.projections WHERE name = 'audit' AND (holder IS NULL OR holder = $1
       OR held_until NOT BETWEEN clock_timestamp() AND clock_timestamp() + $2 * interval '1 ms')
     FOR UPDATE SKIP LOCKED) free
   WHERE p.name = free.name
   RETURNING set_config('synchronous_commit', 'off', true)`,
);

const STATE = statement(
  'audit_state',
  `SELECT p.txid::text::int8 AS txid, p.record_id AS "recordId", p.seq, p.n, s.last_id AS "lastId", (${HORIZON})::text::int8 AS horizon,
     date_trunc('milliseconds', greatest(millrace.clock(), s.recorded_at)) AS "recordedAt"
   FROM millrace.positions p CROSS JOIN millrace.audit_state s WHERE p.name = 'audit'`,
);

const ACTIONS = statement(
  'audit_actions_page',
  `SELECT a.id, a.txid::text::int8 AS txid, a.at, a.org_id AS "orgId", a.project_id AS "projectId", a.event, a.actor,
     a.performed_by AS "performedBy", a.request_id AS "requestId", a.correlation_id AS "correlationId", a.job_id AS "jobId",
     a.job_type AS "jobType", a.attempt, a.details::text AS details
   FROM millrace.audit_actions a WHERE a.txid < $1::text::xid8 ORDER BY a.txid, a.id LIMIT $2::int4`,
);

// A page reads a bounded number of records below `$7`, under which no event can still appear. It opens the records of orgs with governed
// jobs until they have enough events. The last record may have many more, so the events are bounded as well; `cut` is the last event that
// fits. Jobs are looked up one by one: the table is large, and the page is small.
const eventsText = (jobs: AuditedJobs): string => `WITH looked AS MATERIALIZED (
  SELECT r.txid, r.id FROM millrace.records r
  WHERE ${recordsFrom('$1::text::xid8', '$2::int8')} AND r.txid < $7::text::xid8 ORDER BY r.txid, r.id LIMIT $5::int4
), reach AS MATERIALIZED (
  SELECT coalesce(l.txid, greatest($7::text::xid8, $1::text::xid8)) AS txid,
    coalesce(l.id + 1, CASE WHEN $7::text::xid8 > $1::text::xid8 THEN 0 ELSE $2::int8 END) AS record_id
  FROM (SELECT) one LEFT JOIN (SELECT txid, id FROM looked ORDER BY txid, id OFFSET $5::int4 - 1 LIMIT 1) l ON true
), owners AS MATERIALIZED (
  SELECT o.org_id FROM (SELECT DISTINCT r.org_id FROM millrace.records r WHERE ${recordsFrom('$1::text::xid8', '$2::int8')}
    AND ${recordsBefore('(SELECT txid FROM reach)', '(SELECT record_id FROM reach)')}) o
  ${jobs === 'all' ? '' : `WHERE EXISTS (SELECT FROM millrace.jobs j WHERE j.org_id = o.org_id AND j.${GOVERNED} OFFSET 0)`}
), sized AS MATERIALIZED (
  SELECT r.txid, r.id, r.at, r.org_id, r.worker_id, r.from_state, r.to_state, r.job_type, r.reason, r.actor, r.seqs, r.ns, r.attempts, r.details,
    sum(${eventsIn()}) OVER (ORDER BY r.txid, r.id GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM millrace.records r WHERE EXISTS (SELECT FROM owners) AND ${recordsFrom('$1::text::xid8', '$2::int8')}
    AND ${recordsBefore('(SELECT txid FROM reach)', '(SELECT record_id FROM reach)')} AND r.org_id IN (SELECT org_id FROM owners)
), ends AS MATERIALIZED (
  SELECT coalesce(s.txid, h.txid) AS txid, coalesce(s.id, h.record_id) AS record_id
  FROM reach h LEFT JOIN (SELECT txid, id FROM sized WHERE before >= $6::int8 ORDER BY txid, id LIMIT 1) s ON true
), opened AS MATERIALIZED (
  SELECT s.txid, s.id, s.at, s.org_id, s.worker_id, s.from_state, s.to_state, s.job_type, s.reason, s.actor, u.seq, coalesce(u.n, 1) AS n,
    coalesce(u.attempt, 0) AS attempt, u.detail
  FROM sized s CROSS JOIN LATERAL unnest(s.seqs, s.ns, s.attempts, s.details) AS u(seq, n, attempt, detail)
  WHERE coalesce(s.before, 0) < $6::int8 AND ((s.txid, s.id) > ($1::text::xid8, $2::int8) OR (u.seq, coalesce(u.n, 1)) > ($3::int8, $4::int4))
  ORDER BY 1, 2, 11, 12 LIMIT $6::int8 + 1
), cut AS MATERIALIZED (
  SELECT txid, id, seq, n FROM opened WHERE (SELECT count(*) FROM opened) > $6::int8 ORDER BY txid, id, seq, n OFFSET $6::int8 - 1 LIMIT 1
)
SELECT coalesce(c.txid, b.txid)::text::int8 AS "endTxid", coalesce(c.id, b.record_id) AS "endRecordId", coalesce(c.seq, 0) AS "endSeq",
  coalesce(c.n, 0) AS "endN", e.txid::text::int8 AS txid, e.id AS "recordId", e.at, e.org_id AS "orgId", e.worker_id AS "workerId",
  e.from_state AS "from", e.to_state AS "to", e.job_type AS "jobType", e.reason, e.actor AS "causedBy", e.seq, e.n, e.attempt,
  e.detail::text AS detail, e.id_of_job AS "jobId", e.project_id AS "projectId", e.submitted_by AS "actor", e.request_id AS "requestId",
  e.correlation_id AS "correlationId"
FROM ends b LEFT JOIN cut c ON true LEFT JOIN (
  SELECT o.*, j.id AS id_of_job, j.project_id, j.actor AS submitted_by, j.request_id, j.correlation_id FROM opened o
  CROSS JOIN LATERAL (SELECT j.id, j.project_id, j.actor, j.request_id, j.correlation_id FROM millrace.jobs j
    WHERE j.org_id = o.org_id AND j.seq = o.seq${jobs === 'all' ? '' : ` AND j.${GOVERNED}`} OFFSET 0) j
) e ON c.txid IS NULL OR (e.txid, e.id, e.seq, e.n) <= (c.txid, c.id, c.seq, c.n)
ORDER BY e.txid, e.id, e.seq, e.n`;

const EVENTS = {
  governed: statement('audit_page_governed', eventsText('governed')),
  all: statement('audit_page_all', eventsText('all')),
} as const satisfies Record<AuditedJobs, unknown>;

/** A requested action that waits for its place in the trail. */
export type WaitingAction = {
  id: number;
  txid: number;
  at: Date;
  orgId: string;
  projectId: string | null;
  event: string;
  actor: string;
  performedBy: string | null;
  requestId: string | null;
  correlationId: string | null;
  jobId: string | null;
  jobType: string | null;
  attempt: number | null;
  details: string | null;
};

/** An event of an audited job. */
export type WaitingEvent = Position & {
  at: Date;
  orgId: string;
  workerId: number | null;
  from: JobState | null;
  to: JobState;
  jobType: string;
  reason: Reason;
  /** Who asked for the transition. */
  causedBy: string | null;
  attempt: number;
  detail: string | null;
  jobId: string;
  projectId: string | null;
  /** Who submitted the job. */
  actor: string | null;
  requestId: string | null;
  correlationId: string | null;
};

export type AuditLimits = { readonly records: number; readonly events: number; readonly actions: number };

export type AuditPage = {
  readonly from: Position;
  readonly to: Position;
  readonly lastId: number;
  readonly recordedAt: Date;
  readonly actions: readonly WaitingAction[];
  readonly events: readonly WaitingEvent[];
  readonly hasMore: boolean;
};

export const hasUnaudited = async (db: Queryable): Promise<boolean> =>
  (await run<{ has_events: boolean }>(db, PEEK))[0]?.has_events === true;

/** Reserves the next page for this process, or extends the reservation. Returns false if another process works on it. */
export async function holdAudit(db: Queryable, { holder, forMs }: { holder: string; forMs: number }): Promise<boolean> {
  return (await run(db, HOLD, [holder, forMs])).length === 1;
}

type State = Position & { lastId: number; horizon: number; recordedAt: Date };
type EventRow = { endTxid: number; endRecordId: number; endSeq: number; endN: number } & WaitingEvent;

/**
 * Returns what happened after the position, up to the limits. The actions of a transaction come before its events. If the actions do not
 * fit, the events stop before the transaction of the last action, so that both stay in order.
 */
export async function readAuditPage(client: pg.ClientBase, jobs: AuditedJobs, limits: AuditLimits): Promise<AuditPage> {
  const [state] = (await run<State>(client, STATE)) as [State];
  const { txid, recordId, seq, n, lastId, recordedAt } = state;
  const found = await run<WaitingAction>(client, ACTIONS, [String(state.horizon), limits.actions]);
  const isFull = found.length === limits.actions;
  const below = isFull ? Math.max(txid, (found.at(-1) as WaitingAction).txid) : state.horizon;
  const values = [String(txid), recordId, seq, n, limits.records, limits.events, String(below)];
  const rows = await run<EventRow>(client, EVENTS[jobs], values);
  const [{ endTxid, endRecordId, endSeq, endN }] = rows as [EventRow, ...EventRow[]];
  const from = { txid, recordId, seq, n };
  const isUnmoved = endTxid === txid && endRecordId === recordId && endSeq === 0;
  return {
    from,
    to: isUnmoved ? from : { txid: endTxid, recordId: endRecordId, seq: endSeq, n: endN },
    lastId,
    recordedAt,
    actions: found.filter((action) => action.txid <= endTxid),
    events: rows.filter((row) => row.orgId !== null),
    hasMore: isFull || endTxid < state.horizon,
  };
}
