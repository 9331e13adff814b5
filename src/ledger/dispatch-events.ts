import type pg from 'pg';
import { type Match, matchDeliveries, type PublicEvent, publicEventsOf, type Webhook } from '../core/delivery-match.ts';
import { uuidArray } from './binary-array.ts';
import { inTransaction } from './database.ts';
import { HORIZON } from './horizon.ts';
import { type JobKey, outboxJobs } from './outbox-jobs.ts';
import { targetsOf, writeDeliveries } from './queue-deliveries.ts';
import { type Queryable, run, statement } from './statement.ts';

/** Events of one round. A transaction with more is a round of its own. */
const ROUND_EVENTS = 10_000;

// Callbacks are no part of it: their orgs are noted, and there may be very many of them.
const REGISTERED = `millrace.webhooks w WHERE w.kind = 'webhook' AND w.deleted_at IS NULL`;
const HAS_TARGETS = `(EXISTS (SELECT FROM ${REGISTERED} OFFSET 0) OR EXISTS (SELECT FROM millrace.callback_orgs OFFSET 0))`;

// Most rounds find nothing: to see that takes no lock, no number for a transaction and no write. Ordered, so that each look is one
// step in the index: without an order the planner may read a day's records to find that none of them is held.
const PEEK = statement(
  'outbox_peek',
  `WITH h AS MATERIALIZED (SELECT ${HORIZON} AS xmin)
   SELECT (SELECT txid FROM millrace.records
       WHERE txid >= (SELECT txid FROM millrace.projections WHERE name = 'webhooks') ORDER BY txid LIMIT 1) < h.xmin AS has_events,
     (SELECT txid FROM millrace.records ORDER BY txid DESC LIMIT 1) >= h.xmin AS is_held,
     ${HAS_TARGETS} AS has_targets
   FROM h`,
);

// Whoever holds the position's lock is the one dispatcher at work. Below the oldest transaction that runs nothing can appear any
// more, so no event is passed over that commits late. Of the orgs in a batch each is looked up once, and only records of those that
// have a target are opened; where nobody has one, the position jumps to the horizon.
const BATCH = statement(
  'outbox_batch',
  `WITH position AS MATERIALIZED (
  SELECT txid FROM millrace.projections WHERE name = 'webhooks' FOR UPDATE SKIP LOCKED
), h AS MATERIALIZED (
  SELECT ${HORIZON} AS xmin, ${HAS_TARGETS} AS has_targets
), bounds AS MATERIALIZED (
  SELECT p.txid AS low, h.xmin, h.has_targets, greatest(p.txid, CASE WHEN h.has_targets THEN least(h.xmin,
    (SELECT (r.txid::text::int8 + $1::int8)::text::xid8 FROM millrace.records r WHERE r.txid >= p.txid ORDER BY r.txid LIMIT 1))
    ELSE h.xmin END) AS high
  FROM position p CROSS JOIN h
), targets AS MATERIALIZED (
  SELECT o.org_id FROM (SELECT DISTINCT org_id FROM millrace.records
    WHERE txid >= (SELECT low FROM bounds) AND txid < (SELECT high FROM bounds)) o
  WHERE EXISTS (SELECT FROM ${REGISTERED} AND w.org_id = o.org_id OFFSET 0)
    OR EXISTS (SELECT FROM millrace.callback_orgs c WHERE c.org_id = o.org_id OFFSET 0)
), batch AS MATERIALIZED (
  SELECT id, txid, org_id, seqs, ns FROM millrace.records
  WHERE txid >= (SELECT low FROM bounds) AND txid < (SELECT high FROM bounds) AND org_id IN (SELECT org_id FROM targets)
), totals AS MATERIALIZED (
  SELECT txid, sum(sum(cardinality(seqs))) OVER (ORDER BY txid) AS events FROM batch GROUP BY txid
), cut AS MATERIALIZED (
  SELECT b.low, b.xmin, b.has_targets, coalesce((SELECT min(t.txid) FROM totals t
    WHERE t.events > $2::int8 AND t.txid > (SELECT min(txid) FROM totals)), b.high) AS high FROM bounds b
)
SELECT c.low::text::int8 AS low, c.high::text::int8 AS high, c.high < c.xmin AS has_more, c.has_targets, e.org_id, e.seq, e.n
FROM cut c LEFT JOIN LATERAL (
  SELECT b.txid, b.id, b.org_id, u.seq, coalesce(u.n, 1) AS n FROM batch b CROSS JOIN LATERAL unnest(b.seqs, b.ns) AS u(seq, n)
  WHERE b.txid < c.high
) e ON true
ORDER BY e.txid, e.id, e.seq, e.n`,
);

const WEBHOOKS = statement(
  'outbox_webhooks',
  `SELECT id, org_id, events, since_txid::text::int8 AS since_txid FROM millrace.webhooks
   WHERE org_id = ANY ($1::uuid[]) AND kind = 'webhook' AND deleted_at IS NULL ORDER BY created_at, id`,
);

const ADVANCE = statement(
  'outbox_advance',
  `UPDATE millrace.projections SET txid = $1::text::xid8 WHERE name = 'webhooks' AND txid < $1::text::xid8`,
);

type BatchRow = { low: number; high: number; has_more: boolean; has_targets: boolean } & Occurrence;
type Occurrence = { org_id: string | null; seq: number; n: number };

export type Dispatched =
  | { kind: 'busy' }
  | {
      kind: 'dispatched';
      events: number;
      /** Targets that got deliveries. */
      webhookIds: readonly string[];
      hasTargets: boolean;
      /** Later transactions are over, too. */
      hasMore: boolean;
      /** Jobs have moved since the last round, of whatever org. */
      isLively: boolean;
      /** There are events that an older transaction still holds back. */
      isHeld: boolean;
    };

/**
 * Turns the events of the next so many transactions into deliveries. Any number of processes may call it; one at a time does the
 * work, and one that dies leaves position and deliveries as they were.
 */
export async function dispatchEvents(pool: pg.Pool, transactions: number): Promise<Dispatched> {
  type Peeked = { has_events: boolean | null; has_targets: boolean; is_held: boolean | null };
  const [peeked] = await run<Peeked>(pool, PEEK);
  if (peeked?.has_events) return dispatchBatch(pool, transactions);
  const [hasTargets, isHeld] = [peeked?.has_targets === true, peeked?.is_held === true];
  return { kind: 'dispatched', events: 0, webhookIds: [], hasTargets, hasMore: false, isLively: false, isHeld };
}

function dispatchBatch(pool: pg.Pool, transactions: number): Promise<Dispatched> {
  return inTransaction(pool, async (client) => {
    // What is lost with the server's last moments is dispatched again. A plan made for small tables outlives them.
    await client.query('SET LOCAL synchronous_commit = off; SET LOCAL enable_seqscan = off');
    const rows = await run<BatchRow>(client, BATCH, [transactions, ROUND_EVENTS]);
    const [first] = rows;
    if (first === undefined) return { kind: 'busy' };
    const occurrences = first.org_id === null ? [] : rows;
    const webhookIds = occurrences.length === 0 ? [] : await deliver(client, occurrences, first.low);
    if (first.high > first.low) await run(client, ADVANCE, [String(first.high)]);
    const { has_targets: hasTargets, has_more: hasMore } = first;
    const events = occurrences.length;
    return { kind: 'dispatched', events, webhookIds, hasTargets, hasMore, isLively: true, isHeld: false };
  });
}

async function deliver(client: pg.ClientBase, occurrences: readonly Occurrence[], low: number): Promise<string[]> {
  const webhooks = await webhooksOf(client, [...new Set(occurrences.map(({ org_id }) => org_id as string))]);
  const orgsWithWebhooks = [...new Set(webhooks.map(({ orgId }) => orgId))];
  const jobs = await outboxJobs(client, keysOf(occurrences), orgsWithWebhooks);
  const told = new Map(jobs.map((job) => [keyOf(job), publicEventsOf(job)]));
  const matches = matchDeliveries(inOrder(occurrences, told, low), webhooks);
  if (matches.length === 0) return [];
  return writeDeliveries(client, await withTargets(client, matches));
}

/**
 * The events that these transitions tell. Two transactions may change a job in the other order than that of their numbers, so
 * what a job told before, and nobody dispatched yet, always comes first.
 */
function inOrder(
  occurrences: readonly Occurrence[],
  told: ReadonlyMap<string, readonly PublicEvent[]>,
  low: number,
): PublicEvent[] {
  const done = new Map<string, number>();
  return occurrences.flatMap(({ org_id, seq, n }) => {
    const key = keyOf({ orgId: org_id as string, seq });
    const after = done.get(key) ?? 0;
    if (n <= after) return [];
    done.set(key, n);
    return (told.get(key) ?? []).filter((event) => event.n > after && event.n <= n && event.txid >= low);
  });
}

async function withTargets(
  client: pg.ClientBase,
  matches: readonly Match[],
): Promise<{ webhookId: string; event: PublicEvent }[]> {
  const callbacks = matches.flatMap(({ event, url }) => (url === undefined ? [] : [{ orgId: event.orgId, url }]));
  const idOf = await targetsOf(client, callbacks);
  return matches.map(({ event, webhookId, url }) => ({
    event,
    webhookId: webhookId ?? idOf({ orgId: event.orgId, url: url as string }),
  }));
}

async function webhooksOf(db: Queryable, orgIds: readonly string[]): Promise<Webhook[]> {
  type Row = { id: string; org_id: string; events: string[]; since_txid: number };
  const rows = await run<Row>(db, WEBHOOKS, [uuidArray(orgIds)]);
  return rows.map((row) => ({ id: row.id, orgId: row.org_id, events: row.events, sinceTxid: row.since_txid }));
}

const keyOf = ({ orgId, seq }: JobKey): string => `${orgId}:${seq}`;

function keysOf(occurrences: readonly Occurrence[]): JobKey[] {
  const keys = new Map<string, JobKey>();
  for (const { org_id, seq } of occurrences) {
    const key = { orgId: org_id as string, seq };
    keys.set(keyOf(key), key);
  }
  return [...keys.values()];
}
