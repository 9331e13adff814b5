import { int8Array } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const GRANT = statement(
  'grant_limited',
  `SELECT limit_id AS "limitId", granted, is_held AS "isHeld", has_more AS "hasMore", next_in_ms AS "nextInMs"
   FROM millrace.grant_limited($1::int8[], $2::int4)`,
);

// A loose scan: it reads one entry of the index for each limit, however many jobs wait.
const WAITING = statement(
  'waiting_limits',
  `WITH RECURSIVE waiting AS (
  (SELECT limit_id, 1 AS n FROM millrace.limited WHERE limit_id > $1::int8 ORDER BY limit_id LIMIT 1)
  UNION ALL
  SELECT t.limit_id, w.n + 1 FROM waiting w CROSS JOIN LATERAL (
    SELECT limit_id FROM millrace.limited WHERE limit_id > w.limit_id ORDER BY limit_id LIMIT 1) t WHERE w.n < $2::int4
)
SELECT limit_id AS id FROM waiting`,
);

export type LookedAt = {
  limitId: number;
  granted: number;
  /** Another process gives grants of this limit right now. */
  isHeld: boolean;
  /** More jobs may get a grant now. */
  hasMore: boolean;
  /** When a slot of the rate may be free; null for a limit without a rate, or without an occupied slot. */
  nextInMs: number | null;
};

/** Lets waiting jobs of these limits start, at most `most` of each. It waits for no lock. */
export async function grantLimited(db: Queryable, limitIds: readonly number[], most: number): Promise<LookedAt[]> {
  return run<LookedAt>(db, GRANT, [int8Array(limitIds), most]);
}

/** Returns the first limits after a number for which jobs wait. */
export async function waitingLimits(db: Queryable, after: number, most: number): Promise<number[]> {
  const rows = await run<{ id: number }>(db, WAITING, [after, most]);
  return rows.map(({ id }) => id);
}

// No job has the limit, so no job waits for it or counts. Its grants are rests. A process that hands the limit out renews `last_used_at`
// much earlier, and the row is locked here, so a submission either sees it or writes it again.
const PRUNE = statement(
  'prune_limits',
  `WITH unused AS MATERIALIZED (
  SELECT l.id FROM millrace.limits l WHERE l.last_used_at < now() - $1::float8 * interval '1 ms'
    AND NOT EXISTS (SELECT FROM millrace.jobs j WHERE j.limit_id = l.id OFFSET 0)
  ORDER BY l.last_used_at LIMIT $2::int4 FOR UPDATE SKIP LOCKED
), rests AS (
  DELETE FROM millrace.limit_grants g USING unused u WHERE g.limit_id = u.id
), removed AS (
  DELETE FROM millrace.limits l USING unused u WHERE l.id = u.id RETURNING l.id
)
SELECT count(*)::int4 AS removed FROM removed`,
);

/** Removes limits that no process used for so long and that no job has. */
export async function pruneLimits(db: Queryable, { unusedMs, limit }: { unusedMs: number; limit: number }): Promise<number> {
  const [row] = await run<{ removed: number }>(db, PRUNE, [unusedMs, limit]);
  return row?.removed ?? 0;
}
