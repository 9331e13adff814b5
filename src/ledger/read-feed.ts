import type { JobState } from '../core/states.ts';
import type { Reason } from '../core/transitions.ts';
import { HORIZON } from './horizon.ts';
import { type Queryable, run, statement } from './statement.ts';

/** A place in the feed. Everything at or before it has been read, and nothing can appear there any more. */
export type FeedPosition = { readonly txid: number; readonly jobSeq: number; readonly n: number };

export type FeedEvent = FeedPosition & {
  readonly orgId: string;
  readonly jobId: string;
  readonly type: string;
  readonly from: JobState | null;
  readonly to: JobState;
  readonly at: Date;
  readonly reason: Reason;
  readonly attempt: number;
};

export type FeedPage = { readonly events: FeedEvent[]; readonly end: FeedPosition };

/** `xmin`: every transaction below it that could write an event is over. `xmax`: none has started at or above it. */
export type FeedHorizon = { readonly xmin: number; readonly xmax: number };

const BOUNDS = statement(
  'feed_horizon',
  `SELECT ${HORIZON}::text AS xmin, pg_snapshot_xmax(pg_current_snapshot())::text AS xmax`,
);

// The limit counts the events looked at, not those of the orgs asked for: a page costs the same whoever wrote them. Only the
// transaction is indexed, so the events of the cursor's own transaction are read again and left out.
const PAGE = statement(
  'feed_page',
  `WITH h AS MATERIALIZED (SELECT ${HORIZON} AS xmin),
   page AS MATERIALIZED (
     SELECT e.txid, e.job_seq, e.n, e.org_id, e.job_type, e.at, e.from_state, e.to_state, e.reason, e.attempt
     FROM millrace.events e
     WHERE e.txid >= $2::text::xid8 AND (e.txid, e.job_seq, e.n) > ($2::text::xid8, $3::bigint, $4::integer)
       AND e.txid < (SELECT xmin FROM h)
     ORDER BY e.txid, e.job_seq, e.n LIMIT $5),
   bounds AS (
     SELECT (SELECT count(*)::integer FROM page) AS looked_at, xmin::text AS horizon FROM h),
   tail AS (SELECT txid, job_seq, n FROM page ORDER BY txid DESC, job_seq DESC, n DESC LIMIT 1),
   known AS (
     SELECT p.*, j.id FROM page p JOIN millrace.jobs j ON j.org_id = p.org_id AND j.seq = p.job_seq
     WHERE p.org_id = ANY($1::uuid[]))
   SELECT b.looked_at, b.horizon, t.txid::text AS end_txid, t.job_seq AS end_seq, t.n AS end_n, k.txid::text AS txid,
          k.job_seq, k.n, k.org_id, k.id, k.job_type, k.from_state, k.to_state, k.at, k.reason, k.attempt
   FROM bounds b LEFT JOIN tail t ON true LEFT JOIN known k ON true ORDER BY k.txid, k.job_seq, k.n`,
);

// One job's events come in the order of its own numbers, which its row lock makes the order of their commits.
const OF_JOB = statement(
  'feed_of_job',
  `SELECT e.txid::text AS txid, e.job_seq, e.n, e.org_id, j.id, j.job_type, e.from_state, e.to_state, e.at, e.reason, e.attempt
   FROM millrace.jobs j JOIN millrace.events e ON e.record_id = ANY (j.record_ids) AND e.org_id = j.org_id AND e.job_seq = j.seq
   WHERE j.id = $2::uuid AND (j.org_id = $1::uuid) IS TRUE AND e.n > $3::integer ORDER BY e.n LIMIT $4`,
);

type EventRow = {
  txid: string;
  job_seq: number;
  n: number;
  org_id: string;
  id: string;
  job_type: string;
  from_state: JobState | null;
  to_state: JobState;
  at: Date | string;
  reason: Reason;
  attempt: number;
};

type PageRow = { looked_at: number; horizon: string; end_txid: string | null; end_seq: number; end_n: number } & (
  | EventRow
  | { txid: null }
);

export async function feedHorizon(db: Queryable): Promise<FeedHorizon> {
  const [row] = await run<{ xmin: string; xmax: string }>(db, BOUNDS);
  return { xmin: Number(row?.xmin), xmax: Number(row?.xmax) };
}

/** The next events of the orgs after a place, over at most `limit` events of all orgs. An end short of the limit is the horizon. */
export async function readFeed(
  db: Queryable,
  orgIds: readonly string[],
  { after, limit }: { after: FeedPosition; limit: number },
): Promise<FeedPage> {
  const rows = await run<PageRow>(db, PAGE, [orgIds, String(after.txid), after.jobSeq, after.n, limit]);
  const first = rows[0];
  const events = rows.flatMap((row) => (row.txid === null ? [] : [toEvent(row)]));
  if (first === undefined) return { events, end: after };
  if (first.looked_at === limit && first.end_txid !== null)
    return { events, end: { txid: Number(first.end_txid), jobSeq: first.end_seq, n: first.end_n } };
  return { events, end: later(after, startOf(Number(first.horizon))) };
}

export async function readJobFeed(
  db: Queryable,
  orgId: string,
  { jobId, afterN, limit }: { jobId: string; afterN: number; limit: number },
): Promise<FeedEvent[]> {
  return (await run<EventRow>(db, OF_JOB, [orgId, jobId, afterN, limit])).map(toEvent);
}

/** The place before every event of a transaction. */
export const startOf = (txid: number): FeedPosition => ({ txid, jobSeq: 0, n: 0 });

export function isAfter(a: FeedPosition, b: FeedPosition): boolean {
  if (a.txid !== b.txid) return a.txid > b.txid;
  return a.jobSeq === b.jobSeq ? a.n > b.n : a.jobSeq > b.jobSeq;
}

const later = (a: FeedPosition, b: FeedPosition): FeedPosition => (isAfter(a, b) ? a : b);

function toEvent(row: EventRow): FeedEvent {
  return {
    txid: Number(row.txid),
    jobSeq: row.job_seq,
    n: row.n,
    orgId: row.org_id,
    jobId: row.id,
    type: row.job_type,
    from: row.from_state,
    to: row.to_state,
    at: new Date(row.at),
    reason: row.reason,
    attempt: row.attempt,
  };
}
