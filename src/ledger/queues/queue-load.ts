import { type Queryable, run, statement } from '../driver/statement.ts';

// Tokens and claims may be outdated, so each is checked against the row of its job. OFFSET 0 keeps the planner from joining whole tables,
// because it cannot know how many jobs a token lists.
const LOAD = statement(
  'queue_load',
  `WITH waiting AS (
     SELECT t.queue, count(*)::int4 AS jobs, extract(epoch FROM millrace.clock() - min(j.scheduled_at))::float8 * 1000 AS oldest_ms
     FROM millrace.ready_jobs t CROSS JOIN LATERAL (
       SELECT j.scheduled_at FROM millrace.jobs j
       WHERE j.org_id = t.org_id AND j.seq = t.seq AND j.state = 'scheduled' AND j.worker_id IS NULL OFFSET 0) j
     WHERE $1::uuid IS NULL OR t.org_id = $1::uuid GROUP BY t.queue
   ), running AS (
     SELECT j.queue, count(*)::int4 AS jobs
     FROM (SELECT org_id, unnest(seqs) AS seq FROM millrace.claims UNION SELECT org_id, seq FROM millrace.waiting) t
     CROSS JOIN LATERAL (
       SELECT j.queue FROM millrace.jobs j WHERE j.org_id = t.org_id AND j.seq = t.seq AND j.state = 'running' OFFSET 0) j
     WHERE $1::uuid IS NULL OR t.org_id = $1::uuid GROUP BY j.queue
   )
   SELECT q.name, q.claim_order AS "order", q.paused_at AS "pausedAt", coalesce(w.jobs, 0) AS waiting, coalesce(r.jobs, 0) AS running,
     w.oldest_ms AS "oldestWaitingMs"
   FROM millrace.queues q LEFT JOIN waiting w ON w.queue = q.name LEFT JOIN running r ON r.queue = q.name ORDER BY q.name`,
);

export type QueueLoad = {
  name: string;
  order: 'fifo' | 'fair';
  pausedAt: Date | null;
  /** Jobs that could start now. */
  waiting: number;
  running: number;
  /** How long the job that has waited longest could have started; null if none waits. */
  oldestWaitingMs: number | null;
};

/** Counts the jobs of each queue, of one org or of all. Its cost grows with the number of waiting jobs. */
export async function queueLoad(db: Queryable, orgId: string | null): Promise<QueueLoad[]> {
  return run<QueueLoad>(db, LOAD, [orgId]);
}
