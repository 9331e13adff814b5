import { PROMOTER_LOCK, tryLock } from '../driver/advisory-locks.ts';
import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { ORIGIN_NEXT_AT, STANDING } from './callback-origins.ts';

const LOCK_PROMOTER = statement('lock_promoter', `SELECT ${tryLock(PROMOTER_LOCK)} AS is_mine`);

const COUNT_LIVE = statement(
  'count_live_lanes',
  `SELECT count(*) FILTER (WHERE standing = 1) AS unknown, count(*) FILTER (WHERE standing = 2) AS failing
   FROM millrace.webhook_lanes WHERE live_delivery IS NOT NULL`,
);

const RIPEN = statement(
  'ripen_lanes',
  `UPDATE millrace.webhook_lanes SET is_ready = true WHERE webhook_id = ANY (ARRAY(
     SELECT webhook_id FROM millrace.webhook_lanes WHERE due_at <= millrace.clock() AND NOT is_ready
     ORDER BY due_at LIMIT $1::int4 FOR UPDATE SKIP LOCKED)) RETURNING 1 AS one`,
);

/** Returns each value of a column among the ready lanes, with one index lookup per value, whatever the number of lanes. */
const walk = (name: string, { column, where }: { column: string; where: string }): string => `${name} AS (
    (SELECT l.${column} FROM millrace.webhook_lanes l WHERE ${where} ORDER BY l.${column} LIMIT 1)
    UNION ALL
    SELECT n.${column} FROM ${name} w CROSS JOIN LATERAL (SELECT l.${column} FROM millrace.webhook_lanes l
      WHERE ${where} AND l.${column} > w.${column} ORDER BY l.${column} LIMIT 1) n
  )`;

const READY = 'l.is_ready AND l.standing = $1::int2';
const OF_ORG = `${READY} AND l.org_id = g.org_id`;
const LIVE = 'FROM millrace.webhook_lanes v WHERE v.live_delivery IS NOT NULL AND v.org_id = g.org_id';

// A plan made while the table was empty would read all of it for each origin.
const IS_VERIFIED = 'EXISTS (SELECT FROM millrace.verified_origins e WHERE e.org_id = g.org_id AND e.origin = h.origin OFFSET 0)';

// Both walks start at a given id and wrap around, so that the first org in the index is not always first. An origin whose breaker is
// open gets no calls, and then one at a time until a call succeeds. A round reads a bounded number of origins of an org.
const FIND_READY = statement(
  'find_ready_lanes',
  `WITH RECURSIVE ${walk('orgs_on', { column: 'org_id', where: `${READY} AND l.org_id >= $2::uuid` })},
  ${walk('orgs_before', { column: 'org_id', where: `${READY} AND l.org_id < $2::uuid` })}
SELECT c.*, g.org_id, g.room AS org_room FROM (
  SELECT g.org_id, n.room FROM (SELECT org_id FROM orgs_on UNION ALL SELECT org_id FROM orgs_before) g
  CROSS JOIN LATERAL (SELECT $3::int8 - count(*) AS room ${LIVE}) n
) g
CROSS JOIN LATERAL (
  WITH RECURSIVE ${walk('origins_on', { column: 'origin', where: `${OF_ORG} AND l.origin >= $2::uuid` })},
  ${walk('origins_before', { column: 'origin', where: `${OF_ORG} AND l.origin < $2::uuid` })}
  SELECT f.*, h.origin, r.room AS origin_room FROM (SELECT origin FROM origins_on UNION ALL SELECT origin FROM origins_before LIMIT 128) h
  LEFT JOIN LATERAL (SELECT o.failures, o.next_at FROM millrace.callback_origins o
    WHERE o.org_id = g.org_id AND o.origin = h.origin OFFSET 0) o ON true
  CROSS JOIN LATERAL (SELECT CASE WHEN o.failures >= $5::int4 THEN 1 WHEN ${IS_VERIFIED} THEN $4::int8 ELSE least($4::int8, $7::int8) END - count(*) AS room
    ${LIVE} AND v.origin = h.origin) r
  CROSS JOIN LATERAL (
    SELECT l.webhook_id, coalesce(o.failures > 0 AND l.standing < 2 OR o.next_at > millrace.clock(), false) AS is_outdated
    FROM millrace.webhook_lanes l WHERE ${OF_ORG} AND l.origin = h.origin ORDER BY l.due_at
    LIMIT greatest(0, least($6::int8, r.room))
  ) f LIMIT greatest(0, least($6::int8, g.room))
) c LIMIT $6::int8`,
);

const LOCK = statement(
  'lock_ready_lanes',
  `SELECT l.webhook_id AS "webhookId", l.org_id AS "orgId", (SELECT w.url FROM millrace.webhooks w WHERE w.id = l.webhook_id) AS url
   FROM millrace.webhook_lanes l WHERE l.webhook_id = ANY ($1::uuid[]) AND l.is_ready FOR UPDATE OF l SKIP LOCKED`,
);

// The health of the origin has changed since these lanes became ready.
const REFILE = statement(
  'refile_lanes',
  `UPDATE millrace.webhook_lanes l SET standing = ${STANDING}, due_at = greatest(l.due_at, ${ORIGIN_NEXT_AT}),
     is_ready = coalesce(${ORIGIN_NEXT_AT} <= millrace.clock(), true)
   WHERE l.webhook_id = ANY (ARRAY(SELECT webhook_id FROM millrace.webhook_lanes
     WHERE webhook_id = ANY ($1::uuid[]) AND is_ready FOR UPDATE SKIP LOCKED))`,
);

/** The maximum number of live deliveries. */
export type LaneBounds = {
  /** For one org, and for one origin of an org. */
  readonly org: number;
  readonly origin: number;
  /** For one origin of an org that has not been verified. */
  readonly unverified: number;
  /** For targets without a known result, and for targets whose last attempt failed. */
  readonly unknown: number;
  readonly failing: number;
  /** Failures after which the callbacks of an origin are tried one at a time. */
  readonly threshold: number;
};

export type LockedLane = { readonly webhookId: string; readonly orgId: string; readonly url: string; readonly isFailing: boolean };

type ReadyRow = {
  webhook_id: string;
  org_id: string;
  origin: string;
  org_room: number;
  origin_room: number;
  is_outdated: boolean;
};

const RIPEN_AT_ONCE = 1_000;

/**
 * Locks lanes whose first delivery may start now, at most `limit` of each standing. Returns null if another promoter is working. Call
 * it inside a transaction. The walk begins at id `start`.
 */
export async function lockReadyLanes(
  client: Queryable,
  { limit, bounds, start }: { limit: number; bounds: LaneBounds; start: string },
): Promise<LockedLane[] | null> {
  const [lock] = await run<{ is_mine: boolean }>(client, LOCK_PROMOTER);
  if (lock?.is_mine !== true) return null;
  await run(client, RIPEN, [RIPEN_AT_ONCE]);
  const [live] = await run<{ unknown: number; failing: number }>(client, COUNT_LIVE);
  const { unknown = 0, failing = 0 } = live ?? {};
  const rooms = [limit, Math.min(limit, bounds.unknown - unknown), Math.min(limit, bounds.failing - failing)];
  const taken = new Map<string, number>();
  const lanes: LockedLane[] = [];
  for (const [standing, room] of rooms.entries()) {
    const found = room <= 0 ? [] : await findReady(client, { standing, room, bounds, start });
    const fitting = found.filter((row) => hasRoom(row, taken)).map((row) => row.webhook_id);
    if (fitting.length === 0) continue;
    const locked = await run<Omit<LockedLane, 'isFailing'>>(client, LOCK, [uuidArray(fitting)]);
    lanes.push(...locked.map((lane) => ({ ...lane, isFailing: standing === FAILING })));
  }
  return lanes;
}

const FAILING = 2;

type Wanted = { standing: number; room: number; bounds: LaneBounds; start: string };

async function findReady(client: Queryable, { standing, room, bounds, start }: Wanted): Promise<ReadyRow[]> {
  const values = [standing, start, bounds.org, bounds.origin, bounds.threshold, room, bounds.unverified];
  const found = await run<ReadyRow>(client, FIND_READY, values);
  const outdated = found.filter((row) => row.is_outdated);
  if (outdated.length > 0) await run(client, REFILE, [uuidArray(outdated.map((row) => row.webhook_id))]);
  return found.filter((row) => !row.is_outdated);
}

/** An org may have lanes of every standing, which share its limit. */
function hasRoom({ org_id, origin, org_room, origin_room }: ReadyRow, taken: Map<string, number>): boolean {
  const [ofOrg, ofOrigin] = [taken.get(org_id) ?? 0, taken.get(`${org_id} ${origin}`) ?? 0];
  if (ofOrg >= org_room || ofOrigin >= origin_room) return false;
  taken.set(org_id, ofOrg + 1).set(`${org_id} ${origin}`, ofOrigin + 1);
  return true;
}
