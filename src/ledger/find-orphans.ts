import { type Queryable, run, statement } from './statement.ts';

/** A job whose worker fell silent for longer than the job's lease lasts, or stopped without giving it back. */
export type Orphan = {
  orgId: string;
  seq: number;
  id: string;
  leaseSeq: number;
  workerId: number;
  state: 'scheduled' | 'running';
  policyId: number;
  attemptsStarted: number;
  maxAttempts: number;
  jobType: string;
  tags: Record<string, string> | null;
  createdAtMs: number;
  lifetimeLeftMs: number | null;
  cancelRequested: boolean;
};

// From the claims of silent workers to their jobs: nothing here grows with the number of jobs. The shortest lease of all
// policies spares a look at the jobs of workers that are well. OFFSET 0 keeps the planner from hashing the jobs table.
const FIND = statement(
  'find_orphans',
  `WITH shortest AS MATERIALIZED (
  SELECT coalesce(min((body->>'leaseMs')::float8), 0) * interval '1 ms' AS lease FROM millrace.policies
), held AS MATERIALIZED (
  SELECT DISTINCT c.worker_id, c.org_id, s.seq, w.stopped_at, w.beat_at FROM millrace.claims c
  LEFT JOIN millrace.workers w ON w.id = c.worker_id
  CROSS JOIN LATERAL unnest(c.seqs) AS s(seq)
  WHERE w.id IS NULL OR w.stopped_at IS NOT NULL OR w.beat_at + (SELECT lease FROM shortest) < millrace.clock()
)
SELECT j.org_id AS "orgId", j.seq, j.id, j.lease_seq AS "leaseSeq", h.worker_id AS "workerId", j.state, j.policy_id AS "policyId",
  j.attempts_started AS "attemptsStarted", j.max_attempts AS "maxAttempts", j.job_type AS "jobType", j.tags,
  extract(epoch FROM j.created_at)::float8 * 1000 AS "createdAtMs",
  (extract(epoch FROM j.lifetime_deadline - millrace.clock()) * 1000)::float8 AS "lifetimeLeftMs",
  EXISTS (SELECT FROM millrace.cancel_requests r WHERE r.org_id = j.org_id AND r.seq = j.seq) AS "cancelRequested"
FROM held h
CROSS JOIN LATERAL (
  SELECT * FROM millrace.jobs j WHERE j.org_id = h.org_id AND j.seq = h.seq AND j.worker_id = h.worker_id OFFSET 0) j
JOIN millrace.policies p ON p.id = j.policy_id
WHERE h.beat_at IS NULL OR h.stopped_at IS NOT NULL
  OR h.beat_at + (p.body->>'leaseMs')::float8 * interval '1 ms' < millrace.clock()
ORDER BY h.worker_id, j.seq LIMIT $1::int4`,
);

/** A look without locks: whoever acts on an orphan checks again under the worker's lock. */
export async function findOrphans(db: Queryable, limit: number): Promise<Orphan[]> {
  return run<Orphan>(db, FIND, [limit]);
}

// A lease that was lost never comes back under the same claim, so a claim without jobs is dead whoever made it.
const CLEAR_CLAIMS = statement(
  'clear_claims',
  `DELETE FROM millrace.claims c
  WHERE NOT EXISTS (SELECT FROM millrace.workers w WHERE w.id = c.worker_id AND w.stopped_at IS NULL
                      AND w.beat_at > millrace.clock() - interval '1 minute')
    AND NOT EXISTS (SELECT FROM unnest(c.seqs) AS s(seq) CROSS JOIN LATERAL (
      SELECT FROM millrace.jobs j WHERE j.org_id = c.org_id AND j.seq = s.seq AND j.worker_id = c.worker_id OFFSET 0) j)
  RETURNING 1`,
);

// A worker's row outlives it, because the history of its attempts names it.
const BURY = statement(
  'bury_workers',
  `WITH marked AS (
  UPDATE millrace.workers SET stopped_at = millrace.clock()
  WHERE stopped_at IS NULL AND beat_at < millrace.clock() - interval '1 day' RETURNING 1
), deleted AS (
  DELETE FROM millrace.workers w WHERE w.stopped_at < millrace.clock() - interval '90 days'
    AND NOT EXISTS (SELECT FROM millrace.claims c WHERE c.worker_id = w.id) RETURNING 1
)
SELECT (SELECT count(*) FROM marked) AS buried, (SELECT count(*) FROM deleted) AS deleted`,
);

/** Forgets the claims that dead workers left behind, and in time the workers. */
export async function buryWorkers(db: Queryable): Promise<{ claims: number; buried: number; deleted: number }> {
  const claims = await run(db, CLEAR_CLAIMS);
  const [workers] = await run<{ buried: number; deleted: number }>(db, BURY);
  return { claims: claims.length, buried: workers?.buried ?? 0, deleted: workers?.deleted ?? 0 };
}
