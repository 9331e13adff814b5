import { type Queryable, run, statement } from '../driver/statement.ts';
import { isOutdated } from './return-jobs.ts';
import { MAY_RUN } from './start-jobs.ts';
import { BEAT, DEFAULT_BEAT_MS } from './watch-workers.ts';

/** A job whose worker was silent for longer than the job's lease, or stopped without returning the job. */
export type Orphan = {
  orgId: string;
  seq: number;
  id: string;
  leaseSeq: number;
  workerId: number;
  worker: OrphansWorker;
  leaseMs: number;
  state: 'scheduled' | 'running';
  /** Its handler may be running although its start was not written. */
  mayRun: boolean;
  policyId: number;
  attemptsStarted: number;
  maxAttempts: number;
  jobType: string;
  tags: Record<string, string> | null;
  createdAtMs: number;
  lifetimeLeftMs: number | null;
  cancelRequested: boolean;
  /** The event loop of its worker's process was blocked when the worker stopped or fell silent. */
  wasStalled: boolean;
};

/** `silent` is judged by the database's clock, so a step of that clock also makes a worker silent. */
export type OrphansWorker =
  | { kind: 'gone' }
  | { kind: 'stopped'; beat: number }
  | { kind: 'silent'; beat: number; beatMs: number; isBeatAhead: boolean };

// Reads the claims of silent workers and then their jobs, so the cost does not grow with the number of jobs. The shortest lease of all
// policies excludes workers that are well. OFFSET 0 keeps the planner from hashing the jobs table.
const FIND = statement(
  'find_orphans',
  `WITH shortest AS MATERIALIZED (
  SELECT coalesce(min((body->>'leaseMs')::float8), 0) * interval '1 ms' AS lease FROM millrace.policies
), held AS MATERIALIZED (
  SELECT DISTINCT c.worker_id, c.org_id, s.seq, w.id, w.stopped_at, w.beat_at, w.beat_ms, w.stalled_at FROM millrace.claims c
  LEFT JOIN millrace.workers w ON w.id = c.worker_id
  CROSS JOIN LATERAL unnest(c.seqs) AS s(seq)
  WHERE (c.worker_id, s.seq) > ($2::int8, $3::int8)
    AND (w.id IS NULL OR w.stopped_at IS NOT NULL OR ${isOutdated('(SELECT lease FROM shortest)')})
)
SELECT j.org_id AS "orgId", j.seq, j.id, j.lease_seq AS "leaseSeq", w.worker_id AS "workerId", j.state, ${MAY_RUN} AS "mayRun", j.policy_id AS "policyId",
  j.attempts_started AS "attemptsStarted", j.max_attempts AS "maxAttempts", j.job_type AS "jobType", j.tags,
  extract(epoch FROM j.created_at)::float8 * 1000 AS "createdAtMs",
  (extract(epoch FROM j.lifetime_deadline - millrace.clock()) * 1000)::float8 AS "lifetimeLeftMs",
  (p.body->>'leaseMs')::float8 AS "leaseMs", w.id IS NULL AS is_gone, w.stopped_at IS NOT NULL AS is_stopped, ${BEAT} AS beat,
  coalesce(w.beat_ms, ${DEFAULT_BEAT_MS}) AS beat_ms, coalesce(w.beat_at > millrace.clock(), false) AS is_beat_ahead,
  w.stalled_at IS NOT NULL AS "wasStalled",
  EXISTS (SELECT FROM millrace.cancel_requests r WHERE r.org_id = j.org_id AND r.seq = j.seq) AS "cancelRequested"
FROM held w
CROSS JOIN LATERAL (
  SELECT * FROM millrace.jobs j WHERE j.org_id = w.org_id AND j.seq = w.seq AND j.worker_id = w.worker_id OFFSET 0) j
JOIN millrace.policies p ON p.id = j.policy_id
WHERE w.id IS NULL OR w.stopped_at IS NOT NULL OR ${isOutdated(`(p.body->>'leaseMs')::float8 * interval '1 ms'`)}
ORDER BY w.worker_id, j.seq LIMIT $1::int4`,
);

type Row = Omit<Orphan, 'worker'> & {
  is_gone: boolean;
  is_stopped: boolean;
  beat: number;
  beat_ms: number;
  is_beat_ahead: boolean;
};

/** Where a page ended and the next one begins. */
export type OrphanCursor = Pick<Orphan, 'workerId' | 'seq'>;

/** Reads without locks. The caller must check an orphan again under the worker's lock. */
export async function findOrphans(db: Queryable, limit: number, after: OrphanCursor = { workerId: -1, seq: -1 }): Promise<Orphan[]> {
  const rows = await run<Row>(db, FIND, [limit, after.workerId, after.seq]);
  return rows.map(({ is_gone, is_stopped, beat, beat_ms, is_beat_ahead, ...orphan }) => ({
    ...orphan,
    worker: is_gone
      ? { kind: 'gone' }
      : is_stopped
        ? { kind: 'stopped', beat }
        : { kind: 'silent', beat, beatMs: beat_ms, isBeatAhead: is_beat_ahead },
  }));
}

// A lost lease never returns under the same claim, so a claim without jobs is dead. Workers that are only silent keep their claims,
// because a step of the clock makes every worker look silent.
const CLEAR_CLAIMS = statement(
  'clear_claims',
  `DELETE FROM millrace.claims c
  WHERE NOT EXISTS (SELECT FROM millrace.workers w WHERE w.id = c.worker_id AND w.stopped_at IS NULL)
    AND NOT EXISTS (SELECT FROM unnest(c.seqs) AS s(seq) CROSS JOIN LATERAL (
      SELECT FROM millrace.jobs j WHERE j.org_id = c.org_id AND j.seq = s.seq AND j.worker_id = c.worker_id OFFSET 0) j)
  RETURNING 1`,
);

// The row of a worker is kept for a time, because the history of its attempts names it.
const BURY = statement(
  'bury_workers',
  `DELETE FROM millrace.workers w WHERE w.stopped_at < millrace.clock() - interval '90 days'
    AND NOT EXISTS (SELECT FROM millrace.claims c WHERE c.worker_id = w.id) RETURNING 1`,
);

/** Removes the claims of dead workers and, after a time, the rows of workers that stopped. */
export async function buryWorkers(db: Queryable): Promise<{ claims: number; deleted: number }> {
  const claims = await run(db, CLEAR_CLAIMS);
  const workers = await run(db, BURY);
  return { claims: claims.length, deleted: workers.length };
}
