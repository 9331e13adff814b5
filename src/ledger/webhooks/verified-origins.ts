import { type Queryable, run, statement } from '../driver/statement.ts';

// The URL is the one that accepted the message. The target may have another one by now.
const VERIFY = statement(
  'verify_origin',
  `INSERT INTO millrace.verified_origins (org_id, origin, verified_at)
   SELECT w.org_id, millrace.origin_of(w.kind, $2), millrace.clock() FROM millrace.webhooks w WHERE w.id = $1::uuid
   ON CONFLICT (org_id, origin) DO UPDATE SET verified_at = excluded.verified_at`,
);

const FORGET = statement(
  'forget_verified_origins',
  `DELETE FROM millrace.verified_origins WHERE (org_id, origin) IN (
     SELECT org_id, origin FROM millrace.verified_origins WHERE verified_at < millrace.clock() - interval '30 days'
     ORDER BY verified_at LIMIT $1::int4) RETURNING 1 AS one`,
);

/** Records that an endpoint accepted a message. Its org may now send to all URLs of that origin. */
export async function verifyOrigin(db: Queryable, { webhookId, url }: { webhookId: string; url: string }): Promise<void> {
  await run(db, VERIFY, [webhookId, url]);
}

/** Removes old verifications. An origin that is still in use is verified again before its next event. */
export async function forgetVerifiedOrigins(db: Queryable, limit: number): Promise<number> {
  return (await run(db, FORGET, [limit])).length;
}
