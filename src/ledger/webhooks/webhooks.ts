import type { WebhookDisabledReason, WebhookKind } from '../../core/webhook-words.ts';
import { textArray } from '../driver/binary-array.ts';
import { sealOf } from '../driver/seal.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { LAST_ID, microseconds, momentOf, readWebhookCursor, writeWebhookCursor } from './webhook-cursor.ts';

/** A target of events, and its health. */
export type Webhook = {
  readonly id: string;
  readonly kind: WebhookKind;
  readonly url: string;
  /** Empty for a callback, whose job decides. */
  readonly events: readonly string[];
  readonly description: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly disabledAt: Date | null;
  readonly disabledReason: WebhookDisabledReason | null;
  readonly failures: number;
  readonly failingSince: Date | null;
  readonly queued: number;
  readonly lastDeliveryAt: Date | null;
  readonly deliveredTotal: number;
  readonly attemptsTotal: number;
  readonly failuresTotal: number;
};

// Two registrations of an org run one after the other, so that the count of the second is still true when it writes.
const LOCK = statement('lock_webhooks_of_org', 'SELECT id FROM millrace.orgs WHERE id = $1::uuid FOR NO KEY UPDATE');

const COUNT = statement(
  'count_webhooks',
  `SELECT count(*) AS count FROM millrace.webhooks WHERE org_id = $1::uuid AND kind = 'webhook' AND deleted_at IS NULL`,
);

const INSERT = statement(
  'insert_webhook',
  `WITH made AS (
     INSERT INTO millrace.webhooks (id, org_id, kind, url, events, description, created_at, updated_at)
     VALUES ($2::uuid, $1::uuid, 'webhook', $3, $4::text[], $5, $6::timestamptz, $6::timestamptz)
     ON CONFLICT (org_id, kind, md5(url), events) WHERE deleted_at IS NULL DO NOTHING
     RETURNING id, org_id, url, created_at
   ), lane AS (
     INSERT INTO millrace.webhook_lanes (webhook_id, org_id, origin) SELECT id, org_id, millrace.origin_of('webhook', url) FROM made
   )
   INSERT INTO millrace.webhook_secrets (org_id, webhook_id, n, secret, created_at)
   SELECT org_id, id, 1, $7::bytea, created_at FROM made RETURNING webhook_id`,
);

const VIEW = `
  SELECT w.id, w.kind, w.url, w.events, w.description, w.created_at AS "createdAt", w.updated_at AS "updatedAt",
    w.disabled_at AS "disabledAt", w.disabled_reason AS "disabledReason", l.failures, l.failing_since AS "failingSince",
    l.delivered_total AS "deliveredTotal", l.attempts_total AS "attemptsTotal", l.failures_total AS "failuresTotal",
    (SELECT count(*) FROM millrace.webhook_deliveries q WHERE q.webhook_id = w.id AND q.state = 'queued' AND q.tries = 0) AS queued,
    (SELECT d.ended_at FROM millrace.webhook_deliveries d
     WHERE d.org_id = w.org_id AND d.webhook_id = w.id AND d.state = 'delivered'
     ORDER BY d.created_at DESC, d.id DESC LIMIT 1) AS "lastDeliveryAt",
    ${microseconds('w.created_at')} AS "createdUs"
  FROM millrace.webhooks w JOIN millrace.webhook_lanes l ON l.webhook_id = w.id
  WHERE w.org_id = $1::uuid AND w.deleted_at IS NULL`;

const FIND = statement('find_webhook', `${VIEW} AND w.id = $2::uuid`);

const LIST = statement(
  'list_webhooks',
  `${VIEW} AND ($2::text IS NULL OR w.kind = $2)
     AND (w.created_at, w.id) < (${momentOf('$3')}, coalesce($4::uuid, ${LAST_ID}))
   ORDER BY w.created_at DESC, w.id DESC LIMIT $5::int4`,
);

const OWNER = statement('webhook_owner', 'SELECT org_id AS "orgId" FROM millrace.webhooks WHERE id = $1::uuid AND deleted_at IS NULL');

export type NewWebhook = {
  readonly id: string;
  readonly url: string;
  /** Sorted and distinct. */
  readonly events: readonly string[];
  readonly description: string | null;
  readonly secret: Uint8Array;
  readonly createdAt: Date;
  /** The maximum per org. */
  readonly atMost: number;
};

/** Call it inside a transaction. `exists` means that the same events are already registered for the same URL. */
export async function insertWebhook(
  db: Queryable,
  orgId: string,
  { id, url, events, description, secret, createdAt, atMost }: NewWebhook,
): Promise<'created' | 'exists' | 'too_many'> {
  await run(db, LOCK, [orgId]);
  const [counted] = await run<{ count: number }>(db, COUNT, [orgId]);
  if ((counted?.count ?? 0) >= atMost) return 'too_many';
  const values = [orgId, id, url, textArray(events), description, createdAt, Buffer.from(secret)];
  return (await run(db, INSERT, values)).length === 1 ? 'created' : 'exists';
}

export async function findWebhook(db: Queryable, orgId: string, id: string): Promise<Webhook | null> {
  const [row] = await run<Webhook & { createdUs: number }>(db, FIND, [orgId, id]);
  return row === undefined ? null : webhookOf(row);
}

export type WebhookPage = { kind: WebhookKind | null; limit: number; cursor: string | null };

/** Newest first. */
export async function listWebhooks(
  db: Queryable,
  orgId: string,
  { kind, limit, cursor }: WebhookPage,
): Promise<{ webhooks: Webhook[]; nextCursor: string | null }> {
  const scope = { list: 'WEBHOOKS', orgId, filter: { kind } } as const;
  const seal = await sealOf(db);
  const after = cursor === null ? null : readWebhookCursor(seal, scope, cursor);
  const values = [orgId, kind, after?.createdUs ?? null, after?.id ?? null, limit + 1];
  const rows = await run<Webhook & { createdUs: number }>(db, LIST, values);
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  return {
    webhooks: page.map(webhookOf),
    nextCursor: last === undefined ? null : writeWebhookCursor(seal, scope, last),
  };
}

const webhookOf = ({ createdUs: _, ...webhook }: Webhook & { createdUs: number }): Webhook => webhook;

/** Returns the org of a webhook, for doors that refuse a webhook of another org with its own error. */
export async function webhookOwner(db: Queryable, id: string): Promise<string | null> {
  const [owner] = await run<{ orgId: string }>(db, OWNER, [id]);
  return owner?.orgId ?? null;
}
