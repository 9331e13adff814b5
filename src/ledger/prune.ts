import { keyedTypeText, keyScopeText } from './key-scope.ts';
import { type Queryable, run, statement } from './statement.ts';

// Walks each org from its oldest job on, in windows of the index, and leaves it at the first window that ends with a job too
// young for any retention: the cost follows what is to go, not what is kept. A job that a pending one still looks at
// stays. The end is checked again under the row's lock: a manual retry in between saves the job. A record goes with the last of its
// jobs; what two pruners at once leave behind goes with its day. A key goes with the job it stands for, however long it was to hold.
const PRUNE_JOBS = statement(
  'prune_jobs',
  `WITH seen AS MATERIALIZED (
     SELECT j.org_id, j.seq, j.state, j.created_at, j.completed_at, j.policy_id, j.has_dependents FROM millrace.jobs j
     WHERE (j.org_id, j.seq) > ($1::uuid, $2::int8) ORDER BY j.org_id, j.seq LIMIT $3::int4
   ), due AS MATERIALIZED (
     SELECT s.org_id, s.seq, s.completed_at FROM seen s JOIN millrace.policies p ON p.id = s.policy_id
     WHERE s.state IN ('completed', 'failed', 'dead_letter', 'cancelled')
       AND s.completed_at + (p.body->>'retentionMs')::float8 * interval '1 ms' <= millrace.clock()
       AND NOT (s.has_dependents AND EXISTS (
         SELECT FROM millrace.dependencies d JOIN millrace.jobs w ON w.org_id = d.org_id AND w.seq = d.job_seq
         WHERE d.org_id = s.org_id AND d.depends_on_seq = s.seq AND w.state = 'pending'))
     ORDER BY s.org_id, s.seq LIMIT $4::int4
   ), gone AS (
     DELETE FROM millrace.jobs j USING due d
     WHERE j.org_id = d.org_id AND j.seq = d.seq AND j.completed_at = d.completed_at 
     RETURNING j.org_id, j.seq, j.id, j.job_type, j.keyed_type, j.project_id, j.idempotency_key, j.record_ids
   ), progress AS (
     DELETE FROM millrace.progress t USING gone g WHERE t.org_id = g.org_id AND t.seq = g.seq
   ), checkpoints AS (
     DELETE FROM millrace.checkpoints t USING gone g WHERE t.org_id = g.org_id AND t.seq = g.seq
   ), cancels AS (
     DELETE FROM millrace.cancel_requests t USING gone g WHERE t.org_id = g.org_id AND t.seq = g.seq
   ), keys AS (
     DELETE FROM millrace.idempotency_keys k USING gone g WHERE g.idempotency_key IS NOT NULL
       AND k.org_id = g.org_id AND k.scope = ${keyScopeText(keyedTypeText('g'), 'g.project_id')} AND k.key = g.idempotency_key AND k.job_id = g.id
   ), needs AS (
     DELETE FROM millrace.dependencies t USING gone g
     WHERE t.org_id = g.org_id AND (t.job_seq = g.seq OR t.depends_on_seq = g.seq)
   ), history AS (
     DELETE FROM millrace.records t USING (SELECT DISTINCT unnest(record_ids) AS id FROM gone) g
     WHERE t.id = g.id AND NOT EXISTS (
       SELECT FROM unnest(t.seqs) AS u(seq) JOIN millrace.jobs j ON j.org_id = t.org_id AND j.seq = u.seq
       WHERE (j.org_id, j.seq) NOT IN (SELECT g.org_id, g.seq FROM gone g))
   )
   SELECT last.org_id, last.seq, (SELECT count(*)::int4 FROM seen) AS seen,
     (SELECT count(*)::int4 FROM gone) AS gone,
     last.created_at > millrace.clock()
       - (SELECT min((body->>'retentionMs')::float8) FROM millrace.policies) * interval '1 ms' AS is_young
   FROM (SELECT org_id, seq, created_at FROM seen ORDER BY org_id DESC, seq DESC LIMIT 1) last`,
);

const PRUNE_KEYS = statement(
  'prune_keys',
  `WITH expired AS MATERIALIZED (
     SELECT org_id, scope, key FROM millrace.idempotency_keys WHERE expires_at <= millrace.clock()
     ORDER BY expires_at LIMIT $1::int4 FOR UPDATE SKIP LOCKED
   )
   DELETE FROM millrace.idempotency_keys k USING expired e
   WHERE k.org_id = e.org_id AND k.scope = e.scope AND k.key = e.key RETURNING 1 AS one`,
);

// A job that completes beside the request for its cancellation leaves that request behind.
const PRUNE_CANCELS = statement(
  'prune_cancels',
  `WITH stale AS MATERIALIZED (
     SELECT c.org_id, c.seq FROM millrace.cancel_requests c
     LEFT JOIN millrace.jobs j ON j.org_id = c.org_id AND j.seq = c.seq
     WHERE j.seq IS NULL OR j.completed_at IS NOT NULL LIMIT $1::int4
   )
   DELETE FROM millrace.cancel_requests c USING stale s WHERE c.org_id = s.org_id AND c.seq = s.seq RETURNING 1 AS one`,
);

const FIRST_ORG = '00000000-0000-0000-0000-000000000000';
const WINDOW = 2_000;

type Row = { org_id: string; seq: number; seen: number; gone: number; is_young: boolean };

export type Pruned = { jobs: number; idempotencyKeys: number; cancelRequests: number };

/** Removes what has outlived its retention, at most `limit` of each kind; call again while a count reaches it. */
export async function pruneJobs(db: Queryable, limit: number): Promise<Pruned> {
  const jobs = await pruneEnded(db, limit);
  const idempotencyKeys = (await run(db, PRUNE_KEYS, [limit])).length;
  const cancelRequests = (await run(db, PRUNE_CANCELS, [limit])).length;
  return { jobs, idempotencyKeys, cancelRequests };
}

async function pruneEnded(db: Queryable, limit: number): Promise<number> {
  let from = { orgId: FIRST_ORG, seq: -1 };
  let pruned = 0;
  while (pruned < limit) {
    const [row] = await run<Row>(db, PRUNE_JOBS, [from.orgId, from.seq, WINDOW, limit - pruned]);
    if (row === undefined) break;
    pruned += row.gone;
    if (row.seen < WINDOW) break;
    from = { orgId: row.org_id, seq: row.is_young ? Number.MAX_SAFE_INTEGER : row.seq };
  }
  return pruned;
}
