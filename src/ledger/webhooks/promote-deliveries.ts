import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// The snapshot is newer than the locks, because deliveries that were queued when the lanes were found may have been sent since. Each
// step is one index lookup. A plan made while the queue was empty would otherwise read all queued deliveries for each lane. OFFSET 0
// and the id alone in the outer WHERE prevent that; locked deliveries are still queued.
const TAKE_FIRST = statement(
  'take_first_deliveries',
  `UPDATE millrace.webhook_deliveries d SET state = 'live' FROM (
     SELECT f.id FROM unnest($1::uuid[]) AS i(webhook_id)
     CROSS JOIN LATERAL (SELECT w.disabled_at, w.deleted_at FROM millrace.webhooks w WHERE w.id = i.webhook_id OFFSET 0) w
     CROSS JOIN LATERAL (SELECT q.id FROM millrace.webhook_deliveries q WHERE q.webhook_id = i.webhook_id AND q.state = 'queued'
       ORDER BY q.position LIMIT 1) f
     WHERE w.disabled_at IS NULL AND w.deleted_at IS NULL OFFSET 0
   ) first WHERE d.id = first.id RETURNING d.id, d.webhook_id, d.tries`,
);

// A lane without a queued delivery is no longer due.
const SET_LIVE = statement(
  'set_lanes_live',
  `UPDATE millrace.webhook_lanes l SET due_at = NULL, is_ready = false, live_delivery = i.delivery_id, live_job = i.job_id
   FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS i(webhook_id, delivery_id, job_id) WHERE l.webhook_id = i.webhook_id`,
);

// Returns when the next lane is due, or null if none waits.
const NEXT_DUE = statement(
  'next_due_lane',
  `SELECT (extract(epoch FROM min(due_at) - millrace.clock()) * 1000)::float8 AS wait_ms FROM millrace.webhook_lanes
   WHERE due_at > millrace.clock() AND NOT is_ready`,
);

export type TakenDelivery = {
  readonly id: string;
  readonly webhookId: string;
  /** Attempts so far, since it was queued. */
  readonly tries: number;
};

/** Takes the first queued delivery of each of these lanes and makes it live. The lanes must be locked. */
export async function takeFirstDeliveries(db: Queryable, webhookIds: readonly string[]): Promise<TakenDelivery[]> {
  const rows = await run<{ id: string; webhook_id: string; tries: number }>(db, TAKE_FIRST, [uuidArray(webhookIds)]);
  return rows.map((row) => ({ id: row.id, webhookId: row.webhook_id, tries: row.tries }));
}

export type LiveLane = { readonly webhookId: string; readonly live: { deliveryId: string; jobId: string } | null };

export async function setLanesLive(db: Queryable, lanes: readonly LiveLane[]): Promise<void> {
  await run(db, SET_LIVE, [
    uuidArray(lanes.map(({ webhookId }) => webhookId)),
    uuidArray(lanes.map(({ live }) => live?.deliveryId ?? null)),
    uuidArray(lanes.map(({ live }) => live?.jobId ?? null)),
  ]);
}

/** Returns the time until the next lane is due, or null if none will be due by itself. */
export async function nextDueMs(db: Queryable): Promise<number | null> {
  const [row] = await run<{ wait_ms: number | null }>(db, NEXT_DUE);
  return row?.wait_ms ?? null;
}
