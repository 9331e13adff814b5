import type { Owner } from '../../core/owner.ts';
import type { JobState } from '../../core/states.ts';
import type { Reason } from '../../core/transitions.ts';
import { HORIZON, NEXT_TXID } from '../driver/horizon.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { eventsIn, recordsFrom } from './positions.ts';

/** A position in the feed. Everything at or before it has been read, and no event can still appear there. */
export type FeedPosition = {
  readonly txid: number;
  readonly recordId: number;
  readonly jobSeq: number;
  readonly n: number;
};

export type FeedEvent = FeedPosition & {
  readonly orgId: string;
  readonly projectId: string | null;
  readonly jobId: string;
  readonly type: string;
  readonly from: JobState | null;
  readonly to: JobState;
  readonly at: Date;
  readonly reason: Reason;
  readonly attempt: number;
};

/** `hasMore`: the next page can be read immediately. */
export type FeedPage = { readonly events: FeedEvent[]; readonly end: FeedPosition; readonly hasMore: boolean };

/** Every transaction below `xmin` that could write an event has ended. No transaction has started at or above `xmax`. */
export type FeedHorizon = { readonly xmin: number; readonly xmax: number };

const BOUNDS = statement('feed_horizon', `SELECT ${HORIZON}::text AS xmin, ${NEXT_TXID}::text AS xmax`);

const EVENT_ID = 'e.txid, e.record_id, e.job_seq, e.n';

// The limit counts the events that are read, including those of other orgs, so that every page costs the same. A page opens records
// until they have enough events. Only a record that is larger than a page is opened again for the next page.
const PAGE = statement(
  'feed_page',
  `WITH h AS MATERIALIZED (SELECT ${HORIZON} AS xmin),
   looked AS MATERIALIZED (
     SELECT r.txid, r.id, ${eventsIn()} AS events FROM millrace.records r
     WHERE ${recordsFrom('$2::text::xid8', '$6::bigint')} AND r.txid < (SELECT xmin FROM h) ORDER BY r.txid, r.id LIMIT $5::bigint),
   sized AS MATERIALIZED (
     SELECT txid, id, sum(events) OVER (ORDER BY txid, id GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM looked),
   ends AS MATERIALIZED (
     SELECT coalesce(s.txid, l.txid, h.xmin) AS txid, coalesce(s.id, l.id + 1, 0) AS record_id
     FROM h LEFT JOIN (SELECT txid, id FROM sized WHERE before >= $5::bigint ORDER BY txid, id LIMIT 1) s ON true
     LEFT JOIN (SELECT txid, id FROM looked ORDER BY txid, id OFFSET $5::bigint - 1 LIMIT 1) l ON true),
   page AS MATERIALIZED (
     SELECT ${EVENT_ID}, e.org_id, e.job_type, e.at, e.from_state, e.to_state, e.reason, e.attempt
     FROM millrace.events e
     WHERE e.txid >= $2::text::xid8 AND (e.txid, e.record_id) >= ($2::text::xid8, $6::bigint)
       AND e.txid <= (SELECT txid FROM ends) AND (e.txid, e.record_id) < ((SELECT txid FROM ends), (SELECT record_id FROM ends))
       AND (${EVENT_ID}) > ($2::text::xid8, $6::bigint, $3::bigint, $4::integer)
     ORDER BY ${EVENT_ID} LIMIT $5::bigint),
   bounds AS (
     SELECT (SELECT count(*)::integer FROM page) AS looked_at, b.txid::text AS next_txid, b.record_id AS next_record, b.txid < h.xmin AS has_more
     FROM ends b CROSS JOIN h),
   tail AS (SELECT txid, record_id, job_seq, n FROM page ORDER BY txid DESC, record_id DESC, job_seq DESC, n DESC LIMIT 1),
   known AS (
     SELECT p.*, j.id, j.project_id FROM page p JOIN millrace.jobs j ON j.org_id = p.org_id AND j.seq = p.job_seq
     WHERE p.org_id = ANY($1::uuid[]))
   SELECT b.*, t.txid::text AS end_txid, t.record_id AS end_record, t.job_seq AS end_seq, t.n AS end_n, k.txid::text AS txid,
          k.record_id, k.job_seq, k.n, k.org_id, k.project_id, k.id, k.job_type, k.from_state, k.to_state, k.at, k.reason, k.attempt
   FROM bounds b LEFT JOIN tail t ON true LEFT JOIN known k ON true ORDER BY k.txid, k.record_id, k.job_seq, k.n`,
);

// The events of one job are ordered by their numbers. The row lock of the job makes this the order of their commits.
const OF_JOB = statement(
  'feed_of_job',
  `SELECT e.txid::text AS txid, e.record_id, e.job_seq, e.n, e.org_id, j.project_id, j.id, j.job_type, e.from_state, e.to_state, e.at, e.reason, e.attempt
   FROM millrace.jobs j JOIN millrace.events e ON e.record_id = ANY (j.record_ids) AND e.org_id = j.org_id AND e.job_seq = j.seq
   WHERE j.id = $2::uuid AND (j.org_id = $1::uuid) IS TRUE AND ($5::uuid IS NULL OR j.project_id = $5::uuid)
     AND e.n > $3::integer ORDER BY e.n LIMIT $4`,
);

type EventRow = {
  txid: string;
  record_id: number;
  job_seq: number;
  n: number;
  org_id: string;
  project_id: string | null;
  id: string;
  job_type: string;
  from_state: JobState | null;
  to_state: JobState;
  at: Date | string;
  reason: Reason;
  attempt: number;
};

type PageRow = { looked_at: number; next_txid: string; next_record: number; has_more: boolean } & {
  end_txid: string | null;
  end_record: number;
  end_seq: number;
  end_n: number;
} & (EventRow | { txid: null });

export async function feedHorizon(db: Queryable): Promise<FeedHorizon> {
  const [row] = await run<{ xmin: string; xmax: string }>(db, BOUNDS);
  return { xmin: Number(row?.xmin), xmax: Number(row?.xmax) };
}

/** Returns the next events of the orgs after a position. It reads at most `limit` events of all orgs. */
export async function readFeed(
  db: Queryable,
  orgIds: readonly string[],
  { after, limit }: { after: FeedPosition; limit: number },
): Promise<FeedPage> {
  const { txid, recordId, jobSeq, n } = after;
  const rows = await run<PageRow>(db, PAGE, [orgIds, String(txid), jobSeq, n, limit, recordId]);
  const first = rows[0];
  const events = rows.flatMap((row) => (row.txid === null ? [] : [toEvent(row)]));
  if (first === undefined) return { events, end: after, hasMore: false };
  if (first.looked_at === limit && first.end_txid !== null) {
    const { end_txid, end_record, end_seq, end_n } = first;
    return { events, end: { txid: Number(end_txid), recordId: end_record, jobSeq: end_seq, n: end_n }, hasMore: true };
  }
  const next = { txid: Number(first.next_txid), recordId: first.next_record, jobSeq: 0, n: 0 };
  return { events, end: later(after, next), hasMore: first.has_more };
}

export async function readJobFeed(
  db: Queryable,
  { orgId, projectId }: Owner,
  { jobId, afterN, limit }: { jobId: string; afterN: number; limit: number },
): Promise<FeedEvent[]> {
  return (await run<EventRow>(db, OF_JOB, [orgId, jobId, afterN, limit, projectId])).map(toEvent);
}

/** The position before the first event of a transaction. */
export const startOf = (txid: number): FeedPosition => ({ txid, recordId: 0, jobSeq: 0, n: 0 });

export function isAfter(a: FeedPosition, b: FeedPosition): boolean {
  if (a.txid !== b.txid) return a.txid > b.txid;
  if (a.recordId !== b.recordId) return a.recordId > b.recordId;
  return a.jobSeq === b.jobSeq ? a.n > b.n : a.jobSeq > b.jobSeq;
}

const later = (a: FeedPosition, b: FeedPosition): FeedPosition => (isAfter(a, b) ? a : b);

function toEvent(row: EventRow): FeedEvent {
  return {
    txid: Number(row.txid),
    recordId: row.record_id,
    jobSeq: row.job_seq,
    n: row.n,
    orgId: row.org_id,
    projectId: row.project_id,
    jobId: row.id,
    type: row.job_type,
    from: row.from_state,
    to: row.to_state,
    at: new Date(row.at),
    reason: row.reason,
    attempt: row.attempt,
  };
}
