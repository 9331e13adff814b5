import { type Queryable, run, statement } from '../driver/statement.ts';
import { lockLane, refreshLane } from './change-webhook.ts';

const QUEUE_MESSAGE = statement(
  'queue_webhook_message',
  `INSERT INTO millrace.webhook_deliveries (id, org_id, webhook_id, position, event, body, state, created_at)
   SELECT $3::uuid, w.org_id, w.id, nextval('millrace.delivery_position'), $4, $5, 'queued', millrace.clock()
   FROM millrace.webhooks w WHERE w.org_id = $1::uuid AND w.id = $2::uuid AND w.disabled_at IS NULL RETURNING id`,
);

// A replay goes to the end of its lane, so that it does not delay newer deliveries.
const REQUEUE_ONE = statement(
  'requeue_delivery',
  `UPDATE millrace.webhook_deliveries SET state = 'queued', tries = 0, ended_at = NULL, position = nextval('millrace.delivery_position')
   WHERE org_id = $1::uuid AND webhook_id = $2::uuid AND id = $3::uuid AND ended_at IS NOT NULL RETURNING id`,
);

const EXISTS = statement(
  'delivery_exists',
  'SELECT id FROM millrace.webhook_deliveries WHERE org_id = $1::uuid AND webhook_id = $2::uuid AND id = $3::uuid',
);

const REQUEUE_FAILED = statement(
  'requeue_failed_deliveries',
  `WITH picked AS (
     SELECT id, position FROM millrace.webhook_deliveries
     WHERE org_id = $1::uuid AND webhook_id = $2::uuid AND state = 'failed' AND ended_at >= $3::timestamptz
     ORDER BY position LIMIT $4::int4
   ), placed AS MATERIALIZED (
     SELECT id, nextval('millrace.delivery_position') AS position FROM (SELECT id FROM picked ORDER BY position) o
   )
   UPDATE millrace.webhook_deliveries d SET state = 'queued', tries = 0, ended_at = NULL, position = p.position
   FROM placed p WHERE d.id = p.id RETURNING d.id`,
);

export type WebhookMessage = { webhookId: string; id: string; event: string; body: string };

/** Queues a message that belongs to no job; call it in a transaction. `disabled` means that the target is disabled. */
export async function queueMessage(
  db: Queryable,
  orgId: string,
  { webhookId, id, event, body }: WebhookMessage,
): Promise<'queued' | 'not_found' | 'disabled'> {
  if (!(await lockLane(db, orgId, webhookId))) return 'not_found';
  const rows = await run(db, QUEUE_MESSAGE, [orgId, webhookId, id, event, body]);
  if (rows.length === 0) return 'disabled';
  await refreshLane(db, orgId, { webhookId });
  return 'queued';
}

/** Call it in a transaction. `waiting` means that the delivery has not ended, so it cannot be repeated. */
export async function redeliverOne(
  db: Queryable,
  orgId: string,
  { webhookId, id }: { webhookId: string; id: string },
): Promise<'queued' | 'not_found' | 'waiting'> {
  if (!(await lockLane(db, orgId, webhookId))) return 'not_found';
  if ((await run(db, REQUEUE_ONE, [orgId, webhookId, id])).length === 0) {
    return (await run(db, EXISTS, [orgId, webhookId, id])).length === 0 ? 'not_found' : 'waiting';
  }
  await refreshLane(db, orgId, { webhookId });
  return 'queued';
}

/**
 * Queues the deliveries that failed since the given time, in their order; call it in a transaction. Returns how many, or null if the
 * org has no such target.
 */
export async function redeliverFailed(
  db: Queryable,
  orgId: string,
  { webhookId, since, atMost }: { webhookId: string; since: Date; atMost: number },
): Promise<number | null> {
  if (!(await lockLane(db, orgId, webhookId))) return null;
  const { length } = await run(db, REQUEUE_FAILED, [orgId, webhookId, since, atMost]);
  await refreshLane(db, orgId, { webhookId });
  return length;
}
