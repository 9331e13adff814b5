import { textArray } from '../driver/binary-array.ts';
import { type Queryable, run, sqlStateOf, statement } from '../driver/statement.ts';
import { forgetOrigin, ORIGIN_NEXT_AT, STANDING } from './callback-origins.ts';

const LOCK = statement(
  'lock_lane_of_org',
  'SELECT webhook_id FROM millrace.webhook_lanes WHERE org_id = $1::uuid AND webhook_id = $2::uuid FOR UPDATE',
);

// The snapshot is newer than the lock, because the last holder may have deleted the target.
const IS_THERE = statement(
  'webhook_is_there',
  'SELECT id FROM millrace.webhooks WHERE org_id = $1::uuid AND id = $2::uuid AND deleted_at IS NULL',
);

const CHANGE = statement(
  'change_webhook',
  `UPDATE millrace.webhooks SET url = coalesce($3, url), events = coalesce($4::text[], events),
     filter_txid = CASE WHEN $4::text[] IS NULL THEN filter_txid ELSE millrace.txid() END,
     description = CASE WHEN $5::boolean THEN $6 ELSE description END,
     disabled_at = CASE WHEN $7::boolean THEN NULL WHEN NOT $7::boolean THEN coalesce(disabled_at, millrace.clock())
                   ELSE disabled_at END,
     disabled_reason = CASE WHEN $7::boolean THEN NULL WHEN NOT $7::boolean THEN coalesce(disabled_reason, 'manual')
                       ELSE disabled_reason END,
     updated_at = millrace.clock()
   WHERE org_id = $1::uuid AND id = $2::uuid`,
);

const DELETE = statement(
  'delete_webhook',
  'UPDATE millrace.webhooks SET deleted_at = millrace.clock() WHERE org_id = $1::uuid AND id = $2::uuid',
);

// Further deliveries are removed when their retention ends. Nothing is sent to a deleted target.
const DROP_QUEUED = statement(
  'drop_queued_deliveries',
  `DELETE FROM millrace.webhook_deliveries WHERE id = ANY (ARRAY(
     SELECT id FROM millrace.webhook_deliveries WHERE org_id = $1::uuid AND webhook_id = $2::uuid AND state = 'queued'
     ORDER BY position LIMIT 10000))`,
);

// The lane must be locked. It is due if a delivery is queued, none is live and the target is enabled. $3 says whether to forget earlier
// failures. If not, the lane is not due before the time of the next attempt, or while its breaker is open.
const DUE = `greatest(millrace.clock(), CASE WHEN NOT $3::boolean THEN greatest(l.due_at, l.next_at, ${ORIGIN_NEXT_AT}) END)`;
const HAS_WORK = `l.live_delivery IS NULL AND w.disabled_at IS NULL AND w.deleted_at IS NULL
       AND EXISTS (SELECT FROM millrace.webhook_deliveries d WHERE d.webhook_id = l.webhook_id AND d.state = 'queued')`;
const REFRESH = statement(
  'refresh_lane',
  `UPDATE millrace.webhook_lanes l SET
     origin = millrace.origin_of(w.kind, w.url),
     failures = CASE WHEN $3::boolean THEN 0 ELSE l.failures END,
     failing_since = CASE WHEN NOT $3::boolean THEN l.failing_since END,
     next_at = CASE WHEN NOT $3::boolean THEN l.next_at END,
     standing = CASE WHEN $3::boolean THEN 1 ELSE ${STANDING} END,
     due_at = CASE WHEN ${HAS_WORK} THEN ${DUE} END,
     is_ready = ${HAS_WORK} AND ${DUE} <= millrace.clock()
   FROM millrace.webhooks w
   WHERE l.org_id = $1::uuid AND l.webhook_id = $2::uuid AND w.id = l.webhook_id`,
);

// Restarts the count of attempts, because earlier failures no longer matter.
const FORGET_TRIES = statement(
  'forget_tries',
  `UPDATE millrace.webhook_deliveries SET tries = 0 WHERE id = (SELECT id FROM millrace.webhook_deliveries
     WHERE webhook_id = $1::uuid AND state = 'queued' ORDER BY position LIMIT 1) AND tries > 0`,
);

export type WebhookChange = {
  readonly url?: string;
  readonly events?: readonly string[];
  /** Null clears it. */
  readonly description?: string | null;
  readonly enabled?: boolean;
};

const UNIQUE_VIOLATION = '23505';

/** Locks the lane of a target until the transaction ends. Returns false if the org has no such target. */
export async function lockLane(db: Queryable, orgId: string, webhookId: string): Promise<boolean> {
  await run(db, LOCK, [orgId, webhookId]);
  return (await run(db, IS_THERE, [orgId, webhookId])).length === 1;
}

/** Makes the lane due if a delivery is waiting. `forgets` closes its breaker. The lane must be locked. */
export async function refreshLane(
  db: Queryable,
  orgId: string,
  { webhookId, forgets = false }: { webhookId: string; forgets?: boolean },
): Promise<void> {
  if (forgets) {
    await forgetOrigin(db, webhookId);
    await run(db, FORGET_TRIES, [webhookId]);
  }
  await run(db, REFRESH, [orgId, webhookId, forgets]);
}

/** Call it in a transaction. `exists` means that another webhook has these events for this URL; roll back then. */
export async function changeWebhook(
  db: Queryable,
  orgId: string,
  { webhookId, change }: { webhookId: string; change: WebhookChange },
): Promise<'changed' | 'not_found' | 'exists'> {
  if (!(await lockLane(db, orgId, webhookId))) return 'not_found';
  const { url, events, description, enabled } = change;
  const values = [
    ...[orgId, webhookId, url ?? null, events === undefined ? null : textArray(events)],
    ...[description !== undefined, description ?? null, enabled ?? null],
  ];
  try {
    await run(db, CHANGE, values);
  } catch (error) {
    if (sqlStateOf(error) === UNIQUE_VIOLATION) return 'exists';
    throw error;
  }
  // Failures at another address, or before an operator enabled the target again, say nothing about the next delivery.
  await refreshLane(db, orgId, { webhookId, forgets: enabled === true || url !== undefined });
  return 'changed';
}

/**
 * Call it in a transaction. Queued deliveries are dropped, and deliveries in flight finish. Returns false if the org has no such
 * target.
 */
export async function deleteWebhook(db: Queryable, orgId: string, webhookId: string): Promise<boolean> {
  if (!(await lockLane(db, orgId, webhookId))) return false;
  await run(db, DELETE, [orgId, webhookId]);
  await run(db, DROP_QUEUED, [orgId, webhookId]);
  await refreshLane(db, orgId, { webhookId });
  return true;
}
