// How ready jobs are found and taken, shared by every statement that claims. Each function takes parameter numbers.

// Lanes whose queue or type is paused drop out before anything is looked up in them.
const IS_OPEN = `NOT EXISTS (SELECT FROM millrace.queues q WHERE q.name = l.queue AND q.paused_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM millrace.job_types t WHERE t.name = l.job_type AND t.paused_at IS NOT NULL)`;

// A few more than asked for, because another process may hold the first ones.
const withSpare = (limit: number): string => `$${limit}::int4 + least($${limit}::int4, 100)`;

/** Four parameters from `first` on: queues, types, priorities, floors. */
export const lanesText = (first: number): string => `
  SELECT * FROM unnest($${first}::text[], $${first + 1}::text[], $${first + 2}::int2[], $${first + 3}::int8[])
    AS l(queue, job_type, priority, floor) WHERE ${IS_OPEN}`;

export const candidatesText = (limit: number): string => `
  SELECT c.tid FROM lanes l
  CROSS JOIN LATERAL (
    SELECT r.ctid AS tid, r.priority, r.order_key FROM millrace.ready r
    WHERE r.queue = l.queue AND r.job_type = l.job_type AND r.priority = l.priority AND r.order_key >= l.floor
    ORDER BY r.order_key LIMIT ${withSpare(limit)}) c
  ORDER BY c.priority, c.order_key LIMIT ${withSpare(limit)}`;

/** The same lanes, each with the room its type has left in `rooms`. */
export const cappedLanesText = (first: number, rooms: number): string => `
  SELECT * FROM unnest($${first}::text[], $${first + 1}::text[], $${first + 2}::int2[], $${first + 3}::int8[], $${rooms}::int4[])
    AS l(queue, job_type, priority, floor, room) WHERE l.room > 0 AND ${IS_OPEN}`;

/**
 * Of each type and of each capped org no more than its room, under the locks of `claim-room.ts`. Three parameters from `orgs`
 * on: the capped orgs, their rooms, and those that are full.
 */
export const cappedCandidatesText = (limit: number, orgs: number): string => `
  SELECT tid FROM (
    SELECT c.*, l.room, o.room AS org_room,
      row_number() OVER (PARTITION BY l.job_type ORDER BY c.priority, c.order_key) AS nth_of_type,
      row_number() OVER (PARTITION BY c.org_id ORDER BY c.priority, c.order_key) AS nth_of_org
    FROM lanes l
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid, r.priority, r.order_key, r.org_id FROM millrace.ready r
      WHERE r.queue = l.queue AND r.job_type = l.job_type AND r.priority = l.priority AND r.order_key >= l.floor
        AND r.org_id <> ALL ($${orgs + 2}::uuid[])
      ORDER BY r.order_key LIMIT ${withSpare(limit)}) c
    LEFT JOIN unnest($${orgs}::uuid[], $${orgs + 1}::int4[]) AS o(org_id, room) ON o.org_id = c.org_id
  ) ranked
  WHERE nth_of_type <= room AND (org_room IS NULL OR nth_of_org <= org_room)
  ORDER BY priority, order_key LIMIT ${withSpare(limit)}`;

/** From candidates to leases: lock what nobody else holds, take its token, give it the next fencing token. */
export const leasedText = (limit: number): string => `picked AS MATERIALIZED (
  SELECT r.tid FROM candidates c
  CROSS JOIN LATERAL (SELECT ctid AS tid FROM millrace.ready WHERE ctid = c.tid FOR UPDATE SKIP LOCKED) r
  LIMIT $${limit}::int4
), taken AS (
  DELETE FROM millrace.ready r USING picked p WHERE r.ctid = p.tid RETURNING r.org_id, r.seq
), leased AS MATERIALIZED (
  SELECT org_id, seq, nextval('millrace.lease_seq') AS lease_seq FROM taken
)`;
