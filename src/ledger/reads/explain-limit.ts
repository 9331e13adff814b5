import type { JobLimit } from '../../core/limit.ts';
import { namedStatement, type Queryable, runNamed } from '../driver/statement.ts';
import { MAX_COUNTED_AHEAD } from './explain-turn.ts';

/** What a job waits for that has no grant of its limit yet. */
export type LimitFacts = JobLimit & {
  /** Jobs with the key that run, or that workers may start now. */
  running: number;
  /** Starts that still count towards the rate, and jobs that may start now. */
  started: number;
  /** When the next slot of the rate is free, at the earliest; null without a rate. */
  freeInMs: number | null;
  /** Jobs with the key that wait before it. Counting stops at `MAX_COUNTED_AHEAD`. */
  ahead: number;
  /** The first jobs of those that run. */
  runningIds: readonly string[];
};

type Params = { orgId: string; seq: number; max: number };

// The granter deletes grants of jobs that have ended a moment later, so the jobs themselves are looked at.
const EXPLAIN = namedStatement<Params, LimitFacts>(
  'explain_limit',
  `SELECT l.key, l.concurrency, l.rate, l.per_ms AS "perMs", g.running::int4 AS running, g.started::int4 AS started, g.ids AS "runningIds",
     CASE WHEN l.rate IS NULL THEN NULL ELSE greatest(0, extract(epoch FROM g.free_at - millrace.clock())::float8 * 1000) END AS "freeInMs",
     (SELECT count(*)::int4 FROM (SELECT FROM millrace.limited o WHERE o.limit_id = t.limit_id
        AND (o.priority, o.order_key) < (t.priority, t.order_key) LIMIT $max::int4) a) AS ahead
   FROM millrace.limited t JOIN millrace.limits l ON l.id = t.limit_id
   CROSS JOIN LATERAL (
     SELECT count(*) FILTER (WHERE r.runs) AS running, (array_agg(r.id ORDER BY r.seq) FILTER (WHERE r.runs))[1:5] AS ids,
       count(*) FILTER (WHERE r.runs AND r.started_at IS NULL OR r.free_at > millrace.clock()) AS started, min(r.free_at) AS free_at
     FROM (
       SELECT j.id, j.seq, g.started_at, millrace.slot_free_at(coalesce(g.started_at, j.started_at), l.per_ms) AS free_at,
         NOT g.is_over AND j.state IN ('scheduled', 'running') AND NOT j.is_held
           AND NOT EXISTS (SELECT FROM millrace.limited w WHERE w.org_id = j.org_id AND w.seq = j.seq OFFSET 0) AS runs
       FROM millrace.limit_grants g JOIN millrace.jobs j ON j.org_id = g.org_id AND j.seq = g.seq WHERE g.limit_id = l.id) r) g
   WHERE t.org_id = $orgId::uuid AND t.seq = $seq::int8`,
);

/** Returns null if the job does not wait for a grant. */
export async function explainLimit(db: Queryable, params: Omit<Params, 'max'>): Promise<LimitFacts | null> {
  const [facts] = await runNamed(db, EXPLAIN, { ...params, max: MAX_COUNTED_AHEAD });
  return facts === undefined ? null : { ...facts, runningIds: facts.runningIds ?? [] };
}
