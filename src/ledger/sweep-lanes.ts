import { type Queryable, run, statement } from './statement.ts';

// A worker that dies during the last attempt takes the outcome with it: the engine ends the job, and nobody tells the lane.
const FIND_DEAD = statement(
  'find_dead_deliveries',
  `SELECT l.live_delivery, l.live_job FROM millrace.webhook_lanes l LEFT JOIN millrace.jobs j ON j.id = l.live_job
   WHERE l.live_delivery IS NOT NULL AND (j.id IS NULL OR j.state >= 'completed') ORDER BY l.webhook_id LIMIT $1::int4`,
);

// Retention. What a job told is kept as long as the job is.
const PRUNE = statement(
  'prune_deliveries',
  `DELETE FROM millrace.webhook_deliveries WHERE id = ANY (ARRAY(
     SELECT d.id FROM millrace.webhook_deliveries d
     WHERE d.created_at < millrace.clock() - $1::float8 * interval '1 ms' AND d.state <> 'live'
       AND NOT EXISTS (SELECT FROM millrace.jobs j WHERE j.id = d.job_id)
     ORDER BY d.created_at LIMIT $2::int4)) RETURNING 1 AS one`,
);

const PRUNE_TARGETS = statement(
  'prune_webhooks',
  `DELETE FROM millrace.webhooks WHERE id = ANY (ARRAY(
     SELECT w.id FROM millrace.webhooks w WHERE w.deleted_at < millrace.clock() - $1::float8 * interval '1 ms'
       AND NOT EXISTS (SELECT FROM millrace.webhook_deliveries d WHERE d.webhook_id = w.id)
     LIMIT $2::int4)) RETURNING 1 AS one`,
);

export type DeadDelivery = { readonly deliveryId: string; readonly jobId: string };

/** Live deliveries whose job has ended, or is gone. */
export async function findDeadDeliveries(db: Queryable, limit: number): Promise<DeadDelivery[]> {
  const rows = await run<{ live_delivery: string; live_job: string }>(db, FIND_DEAD, [limit]);
  return rows.map((row) => ({ deliveryId: row.live_delivery, jobId: row.live_job }));
}

/** Removes old deliveries of jobs that are gone, and deleted targets that nothing is left of. */
export async function pruneDeliveries(
  db: Queryable,
  { retentionMs, limit }: { retentionMs: number; limit: number },
): Promise<number> {
  const deliveries = await run(db, PRUNE, [retentionMs, limit]);
  const targets = await run(db, PRUNE_TARGETS, [retentionMs, limit]);
  return Math.max(deliveries.length, targets.length);
}
