import { type Queryable, run, statement } from '../driver/statement.ts';

// Returns the current secret first. The secrets of a callback belong to the org. OFFSET 0 makes the planner look up the target by its
// id and not among all enabled targets.
const LOAD = statement(
  'load_delivery',
  `SELECT d.body, d.created_at AS "createdAt", w.url, w.org_id AS "orgId", w.id AS "webhookId", w.kind = 'callback' AS "isCallback",
     millrace.clock() AS now,
     (SELECT coalesce(o.traceparent, o.payload->>'traceparent') FROM millrace.jobs o WHERE o.id = d.job_id) AS traceparent,
     EXISTS (SELECT FROM millrace.verified_origins v WHERE v.org_id = l.org_id AND v.origin = l.origin OFFSET 0) AS "isVerified",
     coalesce(CASE WHEN w.kind = 'callback' THEN
     (SELECT array_remove(ARRAY[c.secret, CASE WHEN c.old_expires_at > millrace.clock() THEN c.old_secret END], NULL)
      FROM millrace.callback_orgs c WHERE c.org_id = w.org_id)
   ELSE
     (SELECT array_agg(s.secret ORDER BY s.n DESC) FROM millrace.webhook_secrets s
      WHERE s.webhook_id = w.id AND (s.expires_at IS NULL OR s.expires_at > millrace.clock()))
   END, '{}') AS secrets
   FROM millrace.webhook_deliveries d
   CROSS JOIN LATERAL (SELECT * FROM millrace.webhooks t WHERE t.id = d.webhook_id OFFSET 0) w
   JOIN millrace.webhook_lanes l ON l.webhook_id = d.webhook_id AND l.live_delivery = d.id AND l.live_job = $2::uuid
   WHERE d.id = $1::uuid AND w.disabled_at IS NULL AND w.deleted_at IS NULL`,
);

export type SendableDelivery = {
  readonly orgId: string;
  readonly webhookId: string;
  readonly isCallback: boolean;
  readonly url: string;
  readonly body: string;
  readonly secrets: readonly Uint8Array[];
  /** Its endpoint accepted a message of the org before. */
  readonly isVerified: boolean;
  readonly createdAt: Date;
  readonly now: Date;
  /** Of the job that the message is about. */
  readonly traceparent: string | null;
};

/** Returns null unless this job delivers it and its target exists and is enabled. */
export async function loadDelivery(
  db: Queryable,
  { deliveryId, jobId }: { deliveryId: string; jobId: string },
): Promise<SendableDelivery | null> {
  return (await run<SendableDelivery>(db, LOAD, [deliveryId, jobId]))[0] ?? null;
}
