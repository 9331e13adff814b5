import { type Queryable, run, type Statement, statement } from '../driver/statement.ts';
import { keyedTypeText, keyScopeText } from '../jobs/idempotency-keys.ts';

const MOST = 1_000; // Findings of one kind. A longer list would not help.

// I3: while a key is valid, an org has one job for a scope and key. Each row of a key names a job that has the key.
const ONE_JOB_PER_KEY = statement(
  'check_keys',
  `SELECT 'I3' AS invariant, org_id, id AS job_id,
     'the key ' || quote_literal(idempotency_key) || ' of ' || job_type || ' already had a job' AS what
   FROM (
     SELECT j.org_id, j.id, ${keyedTypeText('j')} AS job_type, j.idempotency_key, j.created_at,
       lag(j.created_at + (p.body->>'keyWindowMs')::float8 * interval '1 ms')
         OVER (PARTITION BY j.org_id, j.project_id, ${keyedTypeText('j')}, j.idempotency_key ORDER BY j.created_at, j.seq) AS taken_until
     FROM millrace.jobs j JOIN millrace.policies p ON p.id = j.policy_id WHERE j.idempotency_key IS NOT NULL
   ) keyed WHERE created_at < taken_until
   UNION ALL
   SELECT 'I3', k.org_id, k.job_id, 'the key ' || quote_literal(k.key) || ' of ' || k.scope || ' names a job that does not carry it'
   FROM millrace.idempotency_keys k JOIN millrace.jobs j ON j.id = k.job_id
   WHERE j.org_id = k.org_id AND (${keyScopeText(keyedTypeText('j'), 'j.project_id')} <> k.scope OR j.idempotency_key IS DISTINCT FROM k.key)
   LIMIT ${MOST}`,
);

// I8: all orgs share one sequence, so a row whose number belongs to a job of another org refers to that job.
const NO_MIXED_ORGS = statement(
  'check_orgs',
  `SELECT 'I8' AS invariant, named.org_id, j.id AS job_id, named.source || ' names a job of org ' || j.org_id AS what
   FROM (
     SELECT 'ready' AS source, org_id, seq FROM millrace.ready_jobs
     UNION ALL SELECT 'limit_grants', org_id, seq FROM millrace.limit_grants
     UNION ALL SELECT 'unique_keys', org_id, seq FROM millrace.unique_keys
     UNION ALL SELECT 'timers', org_id, seq FROM millrace.timers
     UNION ALL SELECT 'waiting', org_id, seq FROM millrace.waiting
     UNION ALL SELECT 'claims', org_id, unnest(seqs) FROM millrace.claims
     UNION ALL SELECT 'cancel_requests', org_id, seq FROM millrace.cancel_requests
     UNION ALL SELECT 'dependencies', org_id, job_seq FROM millrace.dependencies
     UNION ALL SELECT 'dependencies', org_id, depends_on_seq FROM millrace.dependencies
     UNION ALL SELECT 'releases', org_id, seq FROM millrace.releases
     UNION ALL SELECT 'progress', org_id, seq FROM millrace.progress
     UNION ALL SELECT 'checkpoints', org_id, seq FROM millrace.checkpoints
     UNION ALL SELECT 'job_logs', org_id, seq FROM millrace.job_logs
     UNION ALL SELECT 'jobs.parent_seq', org_id, parent_seq FROM millrace.jobs WHERE parent_seq IS NOT NULL
     UNION ALL SELECT 'events', org_id, job_seq FROM millrace.events
   ) named
   JOIN millrace.jobs j ON j.seq = named.seq AND j.org_id <> named.org_id
   WHERE NOT EXISTS (SELECT FROM millrace.jobs own WHERE own.org_id = named.org_id AND own.seq = named.seq)
   UNION ALL
   SELECT 'I8', k.org_id, j.id, 'idempotency_keys names a job of org ' || j.org_id
   FROM millrace.idempotency_keys k JOIN millrace.jobs j ON j.id = k.job_id AND j.org_id <> k.org_id
   LIMIT ${MOST}`,
);

// T1: every waiting job has a token by which the loops find it. EXCEPT sorts or hashes both sides. The planner cannot know how many jobs
// a row of `ready` lists, and with NOT EXISTS it compared every job with every token (50 000 waiting jobs: cancelled after 30 s).
const EVERY_WAITER_HAS_A_TOKEN = statement(
  'check_tokens',
  `SELECT 'T1' AS invariant, j.org_id, j.id AS job_id, 'a ' || j.state || ' job' || missing.token AS what
   FROM (
     SELECT org_id, seq, ' has no ready token' AS token FROM (
       SELECT org_id, seq, queue COLLATE "C", job_type COLLATE "C", priority FROM millrace.jobs
       WHERE state = 'scheduled' AND worker_id IS NULL
       EXCEPT SELECT org_id, seq, queue, job_type, priority FROM millrace.ready_jobs) r
     UNION ALL
     SELECT org_id, seq, ' has no timer' FROM (
       SELECT org_id, seq FROM millrace.jobs WHERE state IN ('delayed', 'retrying')
       EXCEPT SELECT org_id, seq FROM millrace.timers) t
     UNION ALL
     SELECT org_id, seq, ' that waits for others has no waiting token' FROM (
       SELECT org_id, seq FROM millrace.jobs WHERE state = 'pending' OR state = 'running' AND is_held
       EXCEPT SELECT org_id, seq FROM millrace.waiting) w
     LIMIT ${MOST}
   ) missing JOIN millrace.jobs j ON j.org_id = missing.org_id AND j.seq = missing.seq`,
);

// T2: every lease has a claim by which the rescuer finds it.
const EVERY_LEASE_HAS_A_CLAIM = statement(
  'check_claims',
  `SELECT 'T2' AS invariant, j.org_id, j.id AS job_id, 'no claim of worker ' || j.worker_id || ' contains the job it holds' AS what
   FROM (
     SELECT worker_id, org_id, seq FROM millrace.jobs WHERE worker_id IS NOT NULL
     EXCEPT SELECT worker_id, org_id, unnest(seqs) FROM millrace.claims
     LIMIT ${MOST}
   ) missing JOIN millrace.jobs j ON j.org_id = missing.org_id AND j.seq = missing.seq`,
);

// T3: no job with a limit runs without a grant.
const EVERY_LIMITED_JOB_HAS_A_GRANT = statement(
  'check_grants',
  `SELECT 'T3' AS invariant, j.org_id, j.id AS job_id, 'a running job has no grant of its limit ' || j.limit_id AS what
   FROM millrace.jobs j WHERE j.limit_id IS NOT NULL AND j.state = 'running' AND NOT j.is_held AND NOT EXISTS (
     SELECT FROM millrace.limit_grants g WHERE g.limit_id = j.limit_id AND g.org_id = j.org_id AND g.seq = j.seq AND NOT g.is_over)
   LIMIT ${MOST}`,
);

const CHECKS: readonly Statement[] = [
  ONE_JOB_PER_KEY,
  NO_MIXED_ORGS,
  EVERY_WAITER_HAS_A_TOKEN,
  EVERY_LEASE_HAS_A_CLAIM,
  EVERY_LIMITED_JOB_HAS_A_GRANT,
];

export type TableRow = { invariant: 'I3' | 'I8' | 'T1' | 'T2' | 'T3'; org_id: string; job_id: string; what: string };

/** Runs the checks that compare whole tables, each in a separate snapshot. */
export async function checkTables(db: Queryable): Promise<TableRow[]> {
  const rows: TableRow[] = [];
  for (const check of CHECKS) rows.push(...(await run<TableRow>(db, check)));
  return rows;
}
