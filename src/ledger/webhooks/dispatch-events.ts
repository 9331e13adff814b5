import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { type Match, matchDeliveries, type OutboxJob, type PublicEvent, publicEventsOf, type Webhook } from '../../core/delivery-match.ts';
import { uuidArray } from '../driver/binary-array.ts';
import { inTransaction } from '../driver/database.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import type { Position } from '../history/positions.ts';
import { isDataError, type SetAside, Unprocessable, writeSetAside } from '../history/set-aside.ts';
import { type JobKey, type OutboxRow, outboxRows, withHistories } from './outbox-jobs.ts';
import {
  holdOutbox,
  type Occurrence,
  type OutboxPage,
  outboxPosition,
  type PageLimits,
  peekOutbox,
  readOutboxPage,
} from './outbox-page.ts';
import { type Delivery, queueDeliveries, targetsOf } from './queue-deliveries.ts';

/** The limits of a page, so that its memory and its statements do not depend on the size of a transaction. */
const PAGE = { records: 512, events: 5_000, history: 30_000, bytes: 8_000_000 };
/** Longer than a page takes. After a process dies, the others wait this long. */
const HOLD_MS = 5_000;
/** How much a page shrinks while one of its items fails, in bits. */
const SHRINK_BITS = 3;
const HOLDER = randomUUID();

const WEBHOOKS = statement(
  'outbox_webhooks',
  `SELECT id, org_id AS "orgId", events, since_txid::text::int8 AS "sinceTxid" FROM millrace.webhooks
   WHERE org_id = ANY ($1::uuid[]) AND kind = 'webhook' AND deleted_at IS NULL ORDER BY created_at, id`,
);

export type Dispatched =
  /** Another process works on the next page, or has just moved the position. */
  | { kind: 'busy' }
  | {
      kind: 'dispatched';
      events: number;
      /** Targets that got deliveries. */
      webhookIds: readonly string[];
      /** Items that could not be delivered and were skipped. */
      setAside: readonly SetAside[];
      hasTargets: boolean;
      /** More events are ready. */
      hasMore: boolean;
      /** Jobs of any org have moved since the last round. */
      isLively: boolean;
      /** Some events wait for an older transaction to end. */
      isHeld: boolean;
    };

/**
 * Converts the next page of events to deliveries. Any number of processes may call it. A page is read and matched outside any writing
 * transaction. One short statement then writes the deliveries and moves the position, if no other process has moved it.
 */
export async function dispatchEvents(pool: pg.Pool, limits: Partial<PageLimits> = {}): Promise<Dispatched> {
  const { hasEvents, hasTargets, isHeld } = await peekOutbox(pool);
  if (!hasEvents) {
    const nothing = { events: 0, webhookIds: [], setAside: [], hasMore: false, isLively: false };
    return { kind: 'dispatched', ...nothing, hasTargets, isHeld };
  }
  if (!(await holdOutbox(pool, { holder: HOLDER, forMs: HOLD_MS }))) return { kind: 'busy' };
  const { records = PAGE.records, events = PAGE.events } = limits;
  return dispatchPage(pool, await outboxPosition(pool), { records, events });
}

/** A page that fails is retried with fewer events, until the failing item is alone and can be set aside. */
async function dispatchPage(pool: pg.Pool, from: Position, limits: PageLimits): Promise<Dispatched> {
  try {
    const matched = await matchPage(pool, from, limits);
    return await writePage(pool, from, matched);
  } catch (error) {
    if (!isDataError(error)) throw error;
    if (limits.events > 1) return dispatchPage(pool, from, { ...limits, events: limits.events >> SHRINK_BITS || 1 });
    return passOver(pool, from, { error, limits });
  }
}

type Matched = { readonly page: OutboxPage; readonly matches: readonly Match[] };

/** Reads a page, then matches it without an open transaction, because matching takes processor time. */
async function matchPage(pool: pg.Pool, from: Position, limits: PageLimits): Promise<Matched> {
  return matchJobs(await inTransaction(pool, (client) => readPage(client, from, limits)), from.txid);
}

type PageRead = { page: OutboxPage; jobs: readonly OutboxJob[]; webhooks: readonly Webhook[] };

async function readPage(client: pg.ClientBase, position: Position, limits: PageLimits): Promise<PageRead> {
  // The server may keep a plan that was made for small tables.
  await client.query('SET LOCAL enable_seqscan = off');
  const page = await readOutboxPage(client, { position, limits });
  if (page.occurrences.length === 0) return { page, jobs: [], webhooks: [] };
  const webhooks = await webhooksOf(client, [...new Set(page.occurrences.map(({ orgId }) => orgId))]);
  const orgsWithWebhooks = [...new Set(webhooks.map(({ orgId }) => orgId))];
  const rows = await outboxRows(client, keysOf(page.occurrences), orgsWithWebhooks);
  const short = cutByHistory(page, rows);
  const kept = new Set(short.occurrences.map(keyOf));
  const isKept = (row: OutboxRow) => kept.has(keyOf(row));
  return { page: short, webhooks, jobs: await withHistories(client, rows.filter(isKept)) };
}

/** Shortens a page whose jobs have long histories. */
function cutByHistory(page: OutboxPage, rows: readonly OutboxRow[]): OutboxPage {
  const lengths = new Map(rows.map((row) => [keyOf(row), row.recordIds.length]));
  let length = 0;
  const fits = page.occurrences.findIndex((occurrence) => {
    const key = keyOf(occurrence);
    length += lengths.get(key) ?? 0;
    lengths.delete(key);
    return length > PAGE.history;
  });
  return fits <= 0 ? page : cutAt(page, fits);
}

function cutAt(page: OutboxPage, count: number): OutboxPage {
  const occurrences = page.occurrences.slice(0, count);
  return { ...page, occurrences, end: occurrences.at(-1) as Position, hasMore: true };
}

/** Matches events with targets. It shortens the page if the bodies are large. */
function matchJobs({ page, jobs, webhooks }: PageRead, low: number): Matched {
  try {
    const told = new Map(jobs.map((job) => [keyOf(job), publicEventsOf(job)]));
    const byOrg = Map.groupBy(webhooks, ({ orgId }) => orgId);
    const tell = inOrder(told, low);
    const matches: Match[] = [];
    let bytes = 0;
    for (const [index, occurrence] of page.occurrences.entries()) {
      const found = matchDeliveries(tell(occurrence), byOrg.get(occurrence.orgId) ?? []);
      for (const { event } of found) bytes += event.body.length;
      if (bytes > PAGE.bytes && index > 0) return { page: cutAt(page, index), matches };
      matches.push(...found);
    }
    return { page, matches };
  } catch (error) {
    throw new Unprocessable(String(error), { cause: error });
  }
}

/**
 * Returns the events to dispatch for a transition. Transitions arrive in the order of their transaction ids, but a job may have been
 * changed in a different order. Earlier events of the job that were not dispatched yet are therefore returned first.
 */
function inOrder(told: ReadonlyMap<string, readonly PublicEvent[]>, low: number): (at: Occurrence) => PublicEvent[] {
  const done = new Map<string, number>();
  return (at) => {
    const key = keyOf(at);
    const after = done.get(key) ?? 0;
    if (at.n <= after) return [];
    done.set(key, at.n);
    return (told.get(key) ?? []).filter((event) => event.n > after && event.n <= at.n && event.txid >= low);
  };
}

async function writePage(pool: pg.Pool, from: Position, { page, matches }: Matched): Promise<Dispatched> {
  const deliveries = await withTargets(pool, matches);
  const webhookIds = await queueDeliveries(pool, { deliveries, from, to: page.end, hasMore: page.hasMore });
  if (webhookIds === null) return { kind: 'busy' };
  return dispatched(page, { webhookIds });
}

function dispatched(page: OutboxPage, done: { webhookIds: readonly string[]; setAside?: readonly SetAside[] }): Dispatched {
  const { hasTargets, hasMore } = page;
  const { webhookIds, setAside = [] } = done;
  const events = page.occurrences.length;
  return { kind: 'dispatched', events, webhookIds, setAside, hasTargets, hasMore, isLively: true, isHeld: false };
}

type Failed = { error: unknown; limits: PageLimits };

/** Skips one event that fails. If only some of its deliveries fail, the others are queued. */
async function passOver(pool: pg.Pool, from: Position, { error, limits }: Failed): Promise<Dispatched> {
  const page = await inTransaction(pool, async (client) => {
    await client.query('SET LOCAL enable_seqscan = off');
    return readOutboxPage(client, { position: from, limits });
  });
  const [occurrence] = page.occurrences;
  if (occurrence === undefined) throw error;
  const item: SetAside = { ...occurrence, projection: 'webhooks', webhookId: null, error };
  const matched = await matchPage(pool, from, limits).catch(ifData([]));
  if (Array.isArray(matched)) return passWhole(pool, { from, page, items: [item] });
  const deliveries = await withTargets(pool, matched.matches);
  const webhookIds = new Set<string>();
  const items: SetAside[] = [];
  for (const delivery of deliveries) {
    const written = await queueDeliveries(pool, { deliveries: [delivery], from, to: from, hasMore: true }).catch((cause: unknown) => {
      if (!isDataError(cause)) throw cause;
      items.push({ ...item, webhookId: delivery.webhookId, error: cause });
      return [];
    });
    if (written === null) return { kind: 'busy' };
    for (const id of written) webhookIds.add(id);
  }
  return passWhole(pool, { from, page, items, webhookIds: [...webhookIds] });
}

const ifData =
  <T>(fallback: T) =>
  (error: unknown): T => {
    if (!isDataError(error)) throw error;
    return fallback;
  };

type Passed = { from: Position; page: OutboxPage; items: readonly SetAside[]; webhookIds?: readonly string[] };

async function passWhole(pool: pg.Pool, { from, page, items, webhookIds = [] }: Passed): Promise<Dispatched> {
  const isMoved = await inTransaction(pool, async (client) => {
    const moved = await queueDeliveries(client, { deliveries: [], from, to: page.end, hasMore: page.hasMore });
    if (moved === null) return false;
    for (const item of items) await writeSetAside(client, item);
    return true;
  });
  return isMoved ? dispatched(page, { webhookIds, setAside: items }) : { kind: 'busy' };
}

async function withTargets(db: Queryable, matches: readonly Match[]): Promise<Delivery[]> {
  const callbacks = matches.flatMap(({ event, url }) => (url === undefined ? [] : [{ orgId: event.orgId, url }]));
  const idOf = await targetsOf(db, callbacks);
  return matches.map(({ event, webhookId, url }) => ({
    event,
    webhookId: webhookId ?? idOf({ orgId: event.orgId, url: url as string }),
  }));
}

async function webhooksOf(db: Queryable, orgIds: readonly string[]): Promise<Webhook[]> {
  return run<Webhook>(db, WEBHOOKS, [uuidArray(orgIds)]);
}

const keyOf = ({ orgId, seq }: JobKey): string => `${orgId}:${seq}`;

function keysOf(occurrences: readonly Occurrence[]): JobKey[] {
  const keys = new Map<string, JobKey>();
  for (const { orgId, seq } of occurrences) keys.set(keyOf({ orgId, seq }), { orgId, seq });
  return [...keys.values()];
}
