import type pg from 'pg';
import { HORIZON } from '../driver/horizon.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { eventsIn, type Position, recordsBefore, recordsFrom, unreadRecords } from '../history/positions.ts';

// Callbacks are not read here: their orgs are recorded, and there may be very many callbacks.
const REGISTERED = `millrace.webhooks w WHERE w.kind = 'webhook' AND w.deleted_at IS NULL`;
const HAS_TARGETS = `(EXISTS (SELECT FROM ${REGISTERED} OFFSET 0) OR EXISTS (SELECT FROM millrace.callback_orgs OFFSET 0))`;

// Most rounds find no events, and this check takes no lock, no transaction number and no write. Each lookup has an order and a limit,
// so that it is one step in the index. Otherwise the planner may read the records of a whole day.
const PEEK = statement(
  'outbox_peek',
  `WITH h AS MATERIALIZED (SELECT ${HORIZON} AS xmin)
   SELECT (SELECT r.txid FROM millrace.records r WHERE ${unreadRecords('webhooks')} ORDER BY r.txid, r.id LIMIT 1) < h.xmin AS has_events,
     (SELECT txid FROM millrace.records ORDER BY txid DESC LIMIT 1) >= h.xmin AS is_held,
     ${HAS_TARGETS} AS has_targets
   FROM h`,
);

// The hold saves other processes the same work. It protects nothing, because a write checks that the position is unchanged. So a holder
// that dies, or a clock that is set back, costs a short delay and no event.
const HOLD = statement(
  'outbox_hold',
  `UPDATE millrace.projections p SET holder = $1::uuid, held_until = clock_timestamp() + $2::float8 * interval '1 ms'
   FROM (SELECT name FROM millrace.projections WHERE name = 'webhooks' AND (holder IS NULL OR holder = $1
       OR held_until NOT BETWEEN clock_timestamp() AND clock_timestamp() + $2 * interval '1 ms')
     FOR UPDATE SKIP LOCKED) free
   WHERE p.name = free.name
   RETURNING set_config('synchronous_commit', 'off', true)`,
);

const POSITION = statement(
  'outbox_position',
  `SELECT txid::text::int8 AS txid, record_id AS "recordId", seq, n FROM millrace.positions WHERE name = 'webhooks'`,
);

// No event can still appear below the horizon, so no event that commits late is skipped. A page reads a bounded number of records and
// opens those of orgs with a target, until they have enough events. The last record may have many more, so the events of the page are
// bounded as well. If no org has a target, the position jumps to the horizon.
const PAGE = statement(
  'outbox_page',
  `WITH h AS MATERIALIZED (
  SELECT ${HORIZON} AS xmin, ${HAS_TARGETS} AS has_targets
), looked AS MATERIALIZED (
  SELECT r.txid, r.id FROM millrace.records r
  WHERE (SELECT has_targets FROM h) AND ${recordsFrom('$1::text::xid8', '$2::int8')} AND r.txid < (SELECT xmin FROM h)
  ORDER BY r.txid, r.id LIMIT $5::int4
), reach AS MATERIALIZED (
  SELECT coalesce(l.txid, greatest(h.xmin, $1::text::xid8)) AS txid, coalesce(l.id + 1, 0) AS record_id
  FROM h LEFT JOIN (SELECT txid, id FROM looked ORDER BY txid, id OFFSET $5::int4 - 1 LIMIT 1) l ON true
), targets AS MATERIALIZED (
  SELECT o.org_id FROM (SELECT DISTINCT r.org_id FROM millrace.records r WHERE (SELECT has_targets FROM h)
    AND ${recordsFrom('$1::text::xid8', '$2::int8')} AND ${recordsBefore('(SELECT txid FROM reach)', '(SELECT record_id FROM reach)')}) o
  WHERE EXISTS (SELECT FROM ${REGISTERED} AND w.org_id = o.org_id OFFSET 0)
    OR EXISTS (SELECT FROM millrace.callback_orgs c WHERE c.org_id = o.org_id OFFSET 0)
), sized AS MATERIALIZED (
  SELECT r.txid, r.id, r.org_id, r.seqs, r.ns,
    sum(${eventsIn()}) OVER (ORDER BY r.txid, r.id GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM millrace.records r WHERE EXISTS (SELECT FROM targets) AND ${recordsFrom('$1::text::xid8', '$2::int8')}
    AND ${recordsBefore('(SELECT txid FROM reach)', '(SELECT record_id FROM reach)')} AND r.org_id IN (SELECT org_id FROM targets)
), ends AS MATERIALIZED (
  SELECT coalesce(s.txid, h.txid) AS txid, coalesce(s.id, h.record_id) AS record_id
  FROM reach h LEFT JOIN (SELECT txid, id FROM sized WHERE before >= $6::int8 ORDER BY txid, id LIMIT 1) s ON true
), opened AS MATERIALIZED (
  SELECT s.txid, s.id, s.org_id, u.seq, coalesce(u.n, 1) AS n FROM sized s CROSS JOIN LATERAL unnest(s.seqs, s.ns) AS u(seq, n)
  WHERE coalesce(s.before, 0) < $6::int8 AND ((s.txid, s.id) > ($1::text::xid8, $2::int8) OR (u.seq, coalesce(u.n, 1)) > ($3::int8, $4::int4))
  ORDER BY 1, 2, 4, 5 LIMIT $6::int8 + 1
)
SELECT b.txid::text::int8 AS end_txid, b.record_id AS end_record_id, b.txid < h.xmin AS has_more, h.has_targets, e.txid::text::int8 AS txid,
  e.id AS record_id, e.org_id, e.seq, e.n
FROM ends b CROSS JOIN h LEFT JOIN opened e ON true ORDER BY e.txid, e.id, e.seq, e.n`,
);

type PageRow = { end_txid: number; end_record_id: number; has_more: boolean; has_targets: boolean } & (
  | { org_id: null }
  | { org_id: string; txid: number; record_id: number; seq: number; n: number }
);

/** An event by its position in the history. */
export type Occurrence = Position & { readonly orgId: string };

export type OutboxPage = {
  readonly occurrences: readonly Occurrence[];
  /** Where the next page begins after this one is dispatched. */
  readonly end: Position;
  readonly hasMore: boolean;
  readonly hasTargets: boolean;
};

export type PageLimits = {
  /** The maximum number of records that are read. */
  readonly records: number;
  /** The maximum number of events in the page. */
  readonly events: number;
};

type Peeked = { hasEvents: boolean; hasTargets: boolean; isHeld: boolean };

/** Whether there is anything to dispatch. */
export async function peekOutbox(db: Queryable): Promise<Peeked> {
  type Row = { has_events: boolean | null; has_targets: boolean; is_held: boolean | null };
  const [row] = await run<Row>(db, PEEK);
  return {
    hasEvents: row?.has_events === true,
    hasTargets: row?.has_targets === true,
    isHeld: row?.is_held === true,
  };
}

/** Reserves the next page for this process, or extends the reservation. Returns false if another process works on it. */
export async function holdOutbox(db: Queryable, { holder, forMs }: { holder: string; forMs: number }): Promise<boolean> {
  return (await run(db, HOLD, [holder, forMs])).length === 1;
}

export async function outboxPosition(db: Queryable): Promise<Position> {
  return (await run<Position>(db, POSITION))[0] as Position;
}

/** Returns the events after a position, up to the limits. Call it in a transaction whose planner uses indexes only. */
export async function readOutboxPage(
  client: pg.ClientBase,
  { position, limits }: { position: Position; limits: PageLimits },
): Promise<OutboxPage> {
  const { txid, recordId, seq, n } = position;
  const rows = await run<PageRow>(client, PAGE, [String(txid), recordId, seq, n, limits.records, limits.events]);
  const found = rows.flatMap((row): Occurrence[] =>
    row.org_id === null ? [] : [{ orgId: row.org_id, txid: row.txid, recordId: row.record_id, seq: row.seq, n: row.n }],
  );
  const [first] = rows as [PageRow, ...PageRow[]];
  const { has_targets: hasTargets, has_more } = first;
  const occurrences = found.slice(0, limits.events);
  const isCut = found.length > limits.events;
  const end = isCut ? (occurrences.at(-1) as Position) : { txid: first.end_txid, recordId: first.end_record_id, seq: 0, n: 0 };
  return { occurrences, end, hasMore: has_more || isCut, hasTargets };
}
