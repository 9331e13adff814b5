import { type Queryable, run, statement } from '../driver/statement.ts';

// The lane must be locked. The secret before the last ends immediately, so that at most two are valid.
const END_OLDER = statement(
  'end_older_webhook_secrets',
  'DELETE FROM millrace.webhook_secrets WHERE org_id = $1::uuid AND webhook_id = $2::uuid AND expires_at IS NOT NULL',
);

const LIMIT_CURRENT = statement(
  'limit_webhook_secret',
  `UPDATE millrace.webhook_secrets SET expires_at = millrace.clock() + $3::float8 * interval '1 millisecond'
   WHERE org_id = $1::uuid AND webhook_id = $2::uuid AND expires_at IS NULL RETURNING n, expires_at AS "expiresAt"`,
);

const ADD = statement(
  'add_webhook_secret',
  `INSERT INTO millrace.webhook_secrets (org_id, webhook_id, n, secret, created_at)
   VALUES ($1::uuid, $2::uuid, $3::int4, $4::bytea, millrace.clock())`,
);

const ROTATE_CALLBACK = statement(
  'rotate_callback_secret',
  `INSERT INTO millrace.callback_orgs AS c (org_id, secret, created_at) VALUES ($1::uuid, $2::bytea, millrace.clock())
   ON CONFLICT (org_id) DO UPDATE SET secret = excluded.secret, old_secret = c.secret,
     old_expires_at = millrace.clock() + $3::float8 * interval '1 millisecond'
   RETURNING old_expires_at AS "expiresAt"`,
);

export type NextWebhookSecret = {
  readonly secret: Uint8Array;
  /** How long the previous secret stays valid. */
  readonly overlapMs: number;
};

/** Call it in a transaction with the lane locked. Returns when the previous secret ends, or null if there was none. */
export async function rotateWebhookSecret(
  db: Queryable,
  orgId: string,
  { webhookId, secret, overlapMs }: NextWebhookSecret & { webhookId: string },
): Promise<Date | null> {
  await run(db, END_OLDER, [orgId, webhookId]);
  const [before] = await run<{ n: number; expiresAt: Date }>(db, LIMIT_CURRENT, [orgId, webhookId, overlapMs]);
  await run(db, ADD, [orgId, webhookId, (before?.n ?? 0) + 1, Buffer.from(secret)]);
  return before?.expiresAt ?? null;
}

/** Replaces the secret that signs the callbacks of an org. Returns when the previous secret ends, or null if there was none. */
export async function rotateCallbackSecret(db: Queryable, orgId: string, { secret, overlapMs }: NextWebhookSecret): Promise<Date | null> {
  const [row] = await run<{ expiresAt: Date | null }>(db, ROTATE_CALLBACK, [orgId, Buffer.from(secret), overlapMs]);
  return row?.expiresAt ?? null;
}
