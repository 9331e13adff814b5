import type pg from 'pg';
import { uuidArray } from '../driver/binary-array.ts';
import { inTransaction } from '../driver/database.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// If a worker dies during the last attempt, its outcome is lost: the engine ends the job, and the lane is not updated.
const FIND_DEAD = statement(
  'find_dead_deliveries',
  `SELECT l.live_delivery, l.live_job FROM millrace.webhook_lanes l LEFT JOIN millrace.jobs j ON j.id = l.live_job
   WHERE l.live_delivery IS NOT NULL AND (j.id IS NULL OR j.state >= 'completed') ORDER BY l.webhook_id LIMIT $1::int4`,
);

// Retention: the deliveries of a job are kept as long as the job.
const PRUNE = statement(
  'prune_deliveries',
  `DELETE FROM millrace.webhook_deliveries WHERE id = ANY (ARRAY(
     SELECT d.id FROM millrace.webhook_deliveries d
     WHERE d.created_at < millrace.clock() - $1::float8 * interval '1 ms' AND d.state <> 'live'
       AND NOT EXISTS (SELECT FROM millrace.jobs j WHERE j.id = d.job_id)
     ORDER BY d.created_at LIMIT $2::int4)) RETURNING webhook_id`,
);

const PRUNE_TARGETS = statement(
  'prune_webhooks',
  `DELETE FROM millrace.webhooks WHERE id = ANY (ARRAY(
     SELECT w.id FROM millrace.webhooks w WHERE w.deleted_at < millrace.clock() - $1::float8 * interval '1 ms'
       AND NOT EXISTS (SELECT FROM millrace.webhook_deliveries d WHERE d.org_id = w.org_id AND d.webhook_id = w.id OFFSET 0)
     LIMIT $2::int4)) RETURNING 1 AS one`,
);

// A callback is removed with its last delivery, and is created again if a job names it. A disabled callback stays. It is locked in a
// separate statement, so that a transaction that queues a delivery for it finds it gone and starts again.
const LOCK_CALLBACKS = statement(
  'lock_callbacks',
  `SELECT w.id FROM millrace.webhook_lanes l JOIN millrace.webhooks w ON w.id = l.webhook_id
   WHERE l.webhook_id = ANY ($1::uuid[]) AND l.is_callback AND l.live_delivery IS NULL AND w.disabled_at IS NULL
   FOR UPDATE OF l, w SKIP LOCKED`,
);

// The health of its origin is removed, too. If other callbacks share the origin, the next call restores it.
const PRUNE_CALLBACKS = statement(
  'prune_callbacks',
  `WITH removed AS (
  DELETE FROM millrace.webhooks w WHERE w.id = ANY ($1::uuid[])
    AND NOT EXISTS (SELECT FROM millrace.webhook_deliveries d WHERE d.org_id = w.org_id AND d.webhook_id = w.id OFFSET 0)
  RETURNING w.org_id, millrace.origin_of(w.kind, w.url) AS origin
), origins AS (
  DELETE FROM millrace.callback_origins c USING removed r WHERE c.org_id = r.org_id AND c.origin = r.origin
)
SELECT count(*) AS count FROM removed`,
);

export type DeadDelivery = { readonly deliveryId: string; readonly jobId: string };

/** Returns live deliveries whose job has ended or was removed. */
export async function findDeadDeliveries(db: Queryable, limit: number): Promise<DeadDelivery[]> {
  const rows = await run<{ live_delivery: string; live_job: string }>(db, FIND_DEAD, [limit]);
  return rows.map((row) => ({ deliveryId: row.live_delivery, jobId: row.live_job }));
}

/** Removes old deliveries of removed jobs, callbacks without deliveries, and deleted targets without deliveries. */
export async function pruneDeliveries(pool: pg.Pool, { retentionMs, limit }: { retentionMs: number; limit: number }): Promise<number> {
  return inTransaction(pool, async (client) => {
    // The server may keep a plan that was made for small tables, also for a foreign key.
    await client.query('SET LOCAL enable_seqscan = off');
    const removed = await run<{ webhook_id: string }>(client, PRUNE, [retentionMs, limit]);
    if (removed.length > 0) await pruneCallbacks(client, [...new Set(removed.map((row) => row.webhook_id))]);
    const targets = await run(client, PRUNE_TARGETS, [retentionMs, limit]);
    return Math.max(removed.length, targets.length);
  });
}

async function pruneCallbacks(client: Queryable, webhookIds: readonly string[]): Promise<void> {
  const locked = await run<{ id: string }>(client, LOCK_CALLBACKS, [uuidArray(webhookIds)]);
  if (locked.length > 0) await run(client, PRUNE_CALLBACKS, [uuidArray(locked.map((row) => row.id))]);
}
