import type { Health } from '../../core/breaker.ts';
import type { DeliveryVerdict } from '../../core/delivery-policy.ts';
import { DISABLED_EVENT, EVERY_EVENT } from '../../core/public-events.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { ORIGIN_NEXT_AT, toDate, toMs } from './callback-origins.ts';

const LOCK = statement(
  'lock_lane_of_delivery',
  `SELECT l.webhook_id FROM millrace.webhook_lanes l
   WHERE l.webhook_id = (SELECT webhook_id FROM millrace.webhook_deliveries WHERE id = $1::uuid) FOR UPDATE`,
);

// The snapshot is newer than the lock. The row of the job shows whether the engine would retry.
const READ = statement(
  'read_live_delivery',
  `SELECT w.id AS "webhookId", w.org_id AS "orgId", w.url, w.kind = 'callback' AS "isCallback",
     w.disabled_at IS NULL AND w.deleted_at IS NULL AS "isEnabled", w.deleted_at IS NOT NULL AS "isDeleted", d.attempts, d.tries, d.event,
     d.job_id AS "toldJobId", coalesce(o.traceparent, o.payload->>'traceparent') AS traceparent, o.job_type AS "toldJobType",
     coalesce(o.correlation_id, o.request_id) AS "correlationId", o.project_id AS "projectId",
     l.failures, l.failing_since, l.next_at, millrace.clock() AS now, coalesce(j.attempts_started >= j.max_attempts, false) AS "isLast",
     coalesce(j.previous_lease_seq > 0, false) AS "isRepeat", j.started_lease_seq AS "leaseSeq",
     EXISTS (SELECT FROM millrace.webhook_attempts a WHERE a.delivery_id = d.id AND a.lease_seq = j.started_lease_seq) AS "isWritten"
   FROM millrace.webhook_deliveries d JOIN millrace.webhooks w ON w.id = d.webhook_id
   JOIN millrace.webhook_lanes l ON l.webhook_id = w.id LEFT JOIN millrace.jobs j ON j.id = $2::uuid
   LEFT JOIN millrace.jobs o ON o.id = d.job_id
   WHERE d.id = $1::uuid AND l.live_delivery = d.id AND l.live_job = $2::uuid`,
);

// One statement for the attempt, its delivery and its lane. A delivery that is retried stays first in its lane and waits without a job.
// A delivery that has ended leaves the lane to the next one.
const WRITE = statement(
  'write_attempt',
  `WITH attempt AS (
  INSERT INTO millrace.webhook_attempts (delivery_id, n, org_id, lease_seq, ended_at, duration_ms, verdict, status, error_code, answer)
  SELECT d.id, d.attempts + 1, d.org_id, $13::int8, millrace.clock(), $3::int4, $4, $5::int2, $6, $7 FROM millrace.webhook_deliveries d
  WHERE d.id = $1::uuid
), delivery AS (
  UPDATE millrace.webhook_deliveries SET attempts = attempts + 1, tries = tries + 1, state = $8,
    ended_at = CASE WHEN $8 <> 'queued' THEN millrace.clock() END
  WHERE id = $1::uuid
)
UPDATE millrace.webhook_lanes l SET live_delivery = NULL, live_job = NULL, is_ready = false,
  due_at = CASE WHEN $9::bool AND ($8 = 'queued' OR EXISTS (
      SELECT FROM millrace.webhook_deliveries q WHERE q.webhook_id = l.webhook_id AND q.state = 'queued'))
    THEN greatest(millrace.clock() + $14::float8 * interval '1 ms', $12::timestamptz, ${ORIGIN_NEXT_AT}) END,
  standing = CASE WHEN $10::int4 > 0 THEN 2 ELSE 0 END,
  failures = $10::int4, failing_since = $11::timestamptz, next_at = $12::timestamptz,
  attempts_total = l.attempts_total + 1,
  delivered_total = l.delivered_total + CASE WHEN $8 = 'delivered' THEN 1 ELSE 0 END,
  failures_total = l.failures_total + CASE WHEN $8 = 'delivered' THEN 0 ELSE 1 END
WHERE l.webhook_id = $2::uuid RETURNING l.due_at IS NULL AS is_idle`,
);

const DISABLE = statement(
  'disable_webhook',
  `UPDATE millrace.webhooks SET disabled_at = millrace.clock(), disabled_reason = $2, updated_at = millrace.clock()
   WHERE id = $1::uuid AND disabled_at IS NULL RETURNING id`,
);

// For the webhooks of the org that subscribed to it, and for the disabled webhook, which receives it when it is enabled again. Their
// lanes are made due afterwards: locking them here, with one lane already locked, could deadlock.
const NOTIFY = statement(
  'notify_owner',
  `INSERT INTO millrace.webhook_deliveries (id, org_id, webhook_id, position, event, body, state, created_at)
   SELECT gen_random_uuid(), w.org_id, w.id, nextval('millrace.delivery_position'), '${DISABLED_EVENT}', $3, 'queued', millrace.clock()
   FROM millrace.webhooks w WHERE w.org_id = $1::uuid AND w.kind = 'webhook' AND w.deleted_at IS NULL
     AND (w.id = $2::uuid OR w.disabled_at IS NULL AND w.events && ARRAY['${DISABLED_EVENT}', '${EVERY_EVENT}'])
   RETURNING webhook_id`,
);

// If its target was disabled, a delivery keeps its place and waits. If its target was deleted, the delivery is removed with it.
const LET_GO = statement(
  'let_delivery_go',
  `WITH removed AS (
  DELETE FROM millrace.webhook_deliveries d USING millrace.webhooks w
  WHERE d.id = $1::uuid AND w.id = d.webhook_id AND w.deleted_at IS NOT NULL
), queued AS (
  UPDATE millrace.webhook_deliveries d SET state = 'queued', tries = 0 FROM millrace.webhooks w
  WHERE d.id = $1::uuid AND w.id = d.webhook_id AND w.deleted_at IS NULL
)
UPDATE millrace.webhook_lanes SET live_delivery = NULL, live_job = NULL
WHERE live_delivery = $1::uuid AND live_job = $2::uuid RETURNING webhook_id`,
);

export type LiveDelivery = {
  readonly webhookId: string;
  readonly orgId: string;
  readonly url: string;
  readonly isCallback: boolean;
  readonly isEnabled: boolean;
  readonly isDeleted: boolean;
  readonly attempts: number;
  /** The attempts since it was queued. */
  readonly tries: number;
  readonly event: string;
  /** The job of the event, the trace in its payload, and what a log line says about it. */
  readonly toldJobId: string | null;
  readonly traceparent: string | null;
  readonly toldJobType: string | null;
  readonly correlationId: string | null;
  readonly projectId: string | null;
  /** The engine would not retry. */
  readonly isLast: boolean;
  /** The engine has tried before. */
  readonly isRepeat: boolean;
  /** The engine's newest attempt; null if the job was removed. */
  readonly leaseSeq: number | null;
  /** The result of that attempt is already written. */
  readonly isWritten: boolean;
  readonly health: Health;
  readonly now: Date;
};

type Row = Omit<LiveDelivery, 'health'> & { failures: number; failing_since: Date | null; next_at: Date | null };

export type DeliveryOfJob = { readonly deliveryId: string; readonly jobId: string };

/** Locks the lane of a delivery. Returns null unless the delivery is live and this job delivers it. */
export async function lockLiveDelivery(client: Queryable, live: DeliveryOfJob): Promise<LiveDelivery | null> {
  await run(client, LOCK, [live.deliveryId]);
  const [row] = await run<Row>(client, READ, [live.deliveryId, live.jobId]);
  if (row === undefined) return null;
  const { failures, failing_since, next_at, ...delivery } = row;
  return { ...delivery, health: { failures, failingSinceMs: toMs(failing_since), nextAtMs: toMs(next_at) } };
}

export type AttemptRow = {
  readonly deliveryId: string;
  readonly webhookId: string;
  readonly leaseSeq: number | null;
  readonly verdict: DeliveryVerdict;
  readonly status: number | null;
  readonly errorCode: string | null;
  readonly durationMs: number;
  readonly answer: string | null;
  /** The new state of the delivery. `queued` means that it is retried. */
  readonly state: 'queued' | 'delivered' | 'failed';
  /** The shortest delay before the lane continues. */
  readonly delayMs: number;
  /** Whether the next delivery of the lane may start. */
  readonly goesOn: boolean;
  readonly health: Health;
};

/** Returns whether the lane is idle now. It does not see deliveries that are queued during this transaction. */
export async function writeAttempt(client: Queryable, row: AttemptRow): Promise<{ isIdle: boolean }> {
  const { health } = row;
  const [lane] = await run<{ is_idle: boolean }>(client, WRITE, [
    ...[row.deliveryId, row.webhookId, Math.round(row.durationMs), row.verdict, row.status, row.errorCode, row.answer],
    ...[row.state, row.goesOn, health.failures, toDate(health.failingSinceMs), toDate(health.nextAtMs), row.leaseSeq],
    row.delayMs,
  ]);
  return { isIdle: lane?.is_idle === true };
}

/** Disables a target and notifies the webhooks of its org. Returns the webhooks that are notified. */
export async function disableWebhook(
  client: Queryable,
  { webhookId, orgId, reason, body }: { webhookId: string; orgId: string; reason: string; body: string },
): Promise<string[]> {
  const disabled = await run(client, DISABLE, [webhookId, reason]);
  if (disabled.length === 0) return [];
  const rows = await run<{ webhook_id: string }>(client, NOTIFY, [orgId, webhookId, body]);
  return rows.map((row) => row.webhook_id);
}

/** Detaches a delivery from its job without an attempt. Its lane must be locked. */
export async function letDeliveryGo(client: Queryable, { deliveryId, jobId }: DeliveryOfJob): Promise<void> {
  await run(client, LET_GO, [deliveryId, jobId]);
}
