import type { PublicEvent } from '../../core/delivery-match.ts';
import { int2Array, int4Array, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import type { Position } from '../history/positions.ts';
import { ORIGIN_NEXT_AT, STANDING } from './callback-origins.ts';

// A callback becomes a target at its first use. A deleted callback becomes a new target.
const MAKE_TARGETS = statement(
  'make_callback_targets',
  `WITH made AS (
  INSERT INTO millrace.webhooks (id, org_id, kind, url, events, created_at, updated_at)
  SELECT gen_random_uuid(), i.org_id, 'callback', i.url, '{}', millrace.clock(), millrace.clock()
  FROM unnest($1::uuid[], $2::text[]) AS i(org_id, url)
  ON CONFLICT (org_id, kind, md5(url), events) WHERE deleted_at IS NULL DO NOTHING
  RETURNING id, org_id, url
)
INSERT INTO millrace.webhook_lanes (webhook_id, org_id, origin, is_callback)
SELECT id, org_id, millrace.origin_of('callback', url), true FROM made`,
);

const FIND_TARGETS = statement(
  'find_callback_targets',
  `SELECT w.id, w.org_id, w.url FROM unnest($1::uuid[], $2::text[]) AS i(org_id, url)
   JOIN millrace.webhooks w ON w.org_id = i.org_id AND w.kind = 'callback' AND md5(w.url) = md5(i.url) AND w.events = '{}'
     AND w.deleted_at IS NULL AND w.url = i.url`,
);

// One statement checks that the position is unchanged, queues the deliveries and moves the position, so the session is never idle in
// between. Deliveries that a crash of the server loses are dispatched again.
const WRITE = statement(
  'write_deliveries',
  `WITH unmoved AS MATERIALIZED (
  SELECT p.name FROM millrace.positions p WHERE p.name = 'webhooks' AND p.txid = $8::text::xid8 AND p.record_id = $9::int8 AND p.seq = $10::int8
    AND p.n = $11::int4 FOR UPDATE SKIP LOCKED
), written AS (
  INSERT INTO millrace.webhook_deliveries (id, webhook_id, org_id, job_id, n, index, event, body, position, state, created_at)
  SELECT gen_random_uuid(), webhook_id, org_id, job_id, n, index, event, body, nextval('millrace.delivery_position'), 'queued',
    millrace.clock()
  FROM (SELECT i.* FROM unmoved CROSS JOIN unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int4[], $5::int2[], $6::text[], $7::text[])
    WITH ORDINALITY AS i(webhook_id, org_id, job_id, n, index, event, body, place) ORDER BY place) i
  ON CONFLICT (webhook_id, job_id, n, index) WHERE job_id IS NOT NULL DO NOTHING
  RETURNING webhook_id
), moved AS (
  UPDATE millrace.projections p SET txid = $12::text::xid8, inside_txid = $12::text::xid8, record_id = $13::int8, seq = $14::int8, n = $15::int4,
    holder = CASE WHEN $16::boolean THEN p.holder END
  FROM unmoved u WHERE p.name = u.name RETURNING p.name
)
SELECT ARRAY(SELECT DISTINCT webhook_id FROM written) AS webhook_ids, set_config('synchronous_commit', 'off', true) AS flush FROM moved`,
);

// Locks lanes in a fixed order, so that two callers cannot deadlock. It waits for a lane that is locked by the end of a delivery,
// because that transaction may not have seen the new deliveries. OFFSET 0 makes each lane one index lookup, even with a plan that was
// made while the tables were empty.
const MAKE_DUE = statement(
  'make_lanes_due',
  `WITH idle AS MATERIALIZED (
  SELECT l.webhook_id FROM unnest($1::uuid[]) AS i(webhook_id) JOIN millrace.webhook_lanes l ON l.webhook_id = i.webhook_id
  CROSS JOIN LATERAL (SELECT w.disabled_at, w.deleted_at FROM millrace.webhooks w WHERE w.id = l.webhook_id OFFSET 0) w
  WHERE l.live_delivery IS NULL AND l.due_at IS NULL AND w.disabled_at IS NULL AND w.deleted_at IS NULL
    AND EXISTS (SELECT FROM millrace.webhook_deliveries d WHERE d.webhook_id = l.webhook_id AND d.state = 'queued' OFFSET 0)
  ORDER BY l.webhook_id FOR UPDATE OF l
)
UPDATE millrace.webhook_lanes l SET due_at = greatest(millrace.clock(), l.next_at, ${ORIGIN_NEXT_AT}),
  is_ready = coalesce(greatest(l.next_at, ${ORIGIN_NEXT_AT}) <= millrace.clock(), true), standing = ${STANDING}
WHERE l.webhook_id = ANY (ARRAY(SELECT webhook_id FROM idle)) AND l.live_delivery IS NULL AND l.due_at IS NULL RETURNING l.webhook_id`,
);

// Jumps from target to target among those with queued deliveries, and skips the others.
const QUEUED_TARGETS = statement(
  'queued_targets',
  `WITH RECURSIVE targets AS (
  (SELECT webhook_id FROM millrace.webhook_deliveries WHERE state = 'queued' ORDER BY webhook_id LIMIT 1)
  UNION ALL
  SELECT n.webhook_id FROM targets t CROSS JOIN LATERAL (SELECT d.webhook_id FROM millrace.webhook_deliveries d
    WHERE d.state = 'queued' AND d.webhook_id > t.webhook_id ORDER BY d.webhook_id LIMIT 1) n
)
SELECT t.webhook_id FROM targets t CROSS JOIN LATERAL (SELECT l.due_at, l.live_delivery FROM millrace.webhook_lanes l
  WHERE l.webhook_id = t.webhook_id OFFSET 0) l WHERE l.due_at IS NULL AND l.live_delivery IS NULL`,
);

export type Callback = { readonly orgId: string; readonly url: string };

const keyOf = ({ orgId, url }: Callback): string => `${orgId} ${url}`;

/** Creates targets for callbacks where needed, and returns a function that finds them. */
export async function targetsOf(db: Queryable, callbacks: readonly Callback[]): Promise<(callback: Callback) => string> {
  const distinct = [...new Map(callbacks.map((callback) => [keyOf(callback), callback])).values()];
  if (distinct.length === 0) return () => '';
  const values = [uuidArray(distinct.map(({ orgId }) => orgId)), textArray(distinct.map(({ url }) => url))];
  await run(db, MAKE_TARGETS, values);
  const rows = await run<{ id: string; org_id: string; url: string }>(db, FIND_TARGETS, values);
  const ids = new Map(rows.map((row) => [keyOf({ orgId: row.org_id, url: row.url }), row.id]));
  return (callback) => ids.get(keyOf(callback)) as string;
}

export type Delivery = { readonly webhookId: string; readonly event: PublicEvent };

export type QueueParams = {
  readonly deliveries: readonly Delivery[];
  readonly from: Position;
  readonly to: Position;
  /** The same process continues with the next page. */
  readonly hasMore: boolean;
};

/**
 * Queues events for targets in the given order and moves the position of the dispatcher. Events that were already queued stay as they
 * are. Returns the targets, or null if another process has moved the position; then nothing is written.
 */
export async function queueDeliveries(db: Queryable, params: QueueParams): Promise<string[] | null> {
  const { deliveries, from, to, hasMore } = params;
  const events = deliveries.map(({ event }) => event);
  const [row] = await run<{ webhook_ids: string[] }>(db, WRITE, [
    uuidArray(deliveries.map(({ webhookId }) => webhookId)),
    uuidArray(events.map(({ orgId }) => orgId)),
    uuidArray(events.map(({ jobId }) => jobId)),
    int4Array(events.map(({ n }) => n)),
    int2Array(events.map(({ index }) => index)),
    textArray(events.map(({ name }) => name)),
    textArray(events.map(({ body }) => body)),
    ...[String(from.txid), from.recordId, from.seq, from.n],
    ...[String(to.txid), to.recordId, to.seq, to.n, hasMore],
  ]);
  return row?.webhook_ids ?? null;
}

/** Makes idle lanes with queued deliveries due: the given lanes, or all lanes without ids. Returns how many lanes were idle. */
export async function makeLanesDue(db: Queryable, webhookIds: readonly string[] | null): Promise<number> {
  const ids = webhookIds ?? (await run<{ webhook_id: string }>(db, QUEUED_TARGETS)).map((row) => row.webhook_id);
  return ids.length === 0 ? 0 : (await run(db, MAKE_DUE, [uuidArray(ids)])).length;
}
