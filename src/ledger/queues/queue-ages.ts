import { type Queryable, run, statement } from '../driver/statement.ts';

/** Rows beyond this number are not counted. A row has one or more jobs. */
const MAX_ROWS = 1_000_000;

/** Of each queue, type and priority, this many tokens are checked for the oldest job. */
const CHECKED = 100;

// A job that was delayed or retried waits before jobs that became ready earlier, so the first job of a queue need not be the oldest. Every
// queue has a row, and an empty one shows 0.
const READ = statement(
  'read_queue_ages',
  `WITH RECURSIVE lanes(queue, job_type, priority) AS (
  (SELECT r.queue, r.job_type, r.priority FROM millrace.ready r ORDER BY r.queue, r.job_type, r.priority LIMIT 1)
  UNION ALL
  SELECT n.queue, n.job_type, n.priority FROM lanes l CROSS JOIN LATERAL (
    SELECT r.queue, r.job_type, r.priority FROM millrace.ready r WHERE (r.queue, r.job_type, r.priority) > (l.queue, l.job_type, l.priority)
    ORDER BY r.queue, r.job_type, r.priority LIMIT 1) n
), first AS (
  SELECT l.queue, f.org_id, f.seq FROM lanes l CROSS JOIN LATERAL (
    SELECT r.org_id, r.seqs[r.taken + 1] AS seq FROM millrace.ready r
    WHERE r.queue = l.queue AND r.job_type = l.job_type AND r.priority = l.priority ORDER BY r.order_key LIMIT ${CHECKED}) f
  UNION ALL
  SELECT queue, org_id, seq FROM (
    SELECT x.queue, x.org_id, x.seq, row_number() OVER (PARTITION BY x.queue ORDER BY x.seq) AS n
    FROM (SELECT queue, org_id, seq FROM millrace.limited LIMIT ${MAX_ROWS}) x) x WHERE n <= ${CHECKED}
), oldest AS (
  SELECT f.queue, min(j.scheduled_at) AS since FROM first f CROSS JOIN LATERAL (
    SELECT j.scheduled_at FROM millrace.jobs j WHERE j.org_id = f.org_id AND j.seq = f.seq AND j.state = 'scheduled' OFFSET 0) j GROUP BY f.queue
), waiting AS (
  (SELECT queue, cardinality(seqs) - taken AS jobs FROM millrace.ready LIMIT ${MAX_ROWS})
  UNION ALL (SELECT queue, 1 FROM millrace.limited LIMIT ${MAX_ROWS})
), sums AS (SELECT queue, sum(jobs) AS jobs FROM waiting GROUP BY queue)
SELECT q.name AS queue, coalesce(s.jobs, 0)::float8 AS depth, greatest(0, coalesce(date_part('epoch', millrace.clock() - o.since), 0)) AS age
FROM millrace.queues q LEFT JOIN sums s ON s.queue = q.name LEFT JOIN oldest o ON o.queue = q.name ORDER BY q.name`,
);

const READ_RUNNING = statement(
  'read_running_jobs',
  `SELECT greatest(0, coalesce(sum(jobs), 0))::float8 AS jobs FROM millrace.live_totals WHERE state = 'running'`,
);

export type QueueAge = { readonly queue: string; readonly depth: number; readonly ageSeconds: number };

/** How many jobs wait in each queue, and for how long the oldest of them. */
export async function readQueueAges(db: Queryable): Promise<QueueAge[]> {
  const rows = await run<{ queue: string; depth: number; age: number }>(db, READ);
  return rows.map(({ queue, depth, age }) => ({ queue, depth, ageSeconds: age }));
}

/** How many jobs of all processes are running, by the last round of the rollup writer. */
export async function countRunning(db: Queryable): Promise<number> {
  const [row] = await run<{ jobs: number }>(db, READ_RUNNING);
  return row?.jobs ?? 0;
}
