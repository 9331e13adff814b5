import type { Health } from '../../core/breaker.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// Callbacks share the health of their origin. Each job may name another URL, so a host that hangs would otherwise look new every time.
const OF_LANE = 'FROM millrace.callback_origins c WHERE l.is_callback AND c.org_id = l.org_id AND c.origin = l.origin';

/** When the origin of lane `l` may be called again; null unless the lane is a callback's and its origin failed. */
export const ORIGIN_NEXT_AT = `(SELECT c.next_at ${OF_LANE})`;

/** The health of lane `l`: 0 if its last call succeeded, 1 if nothing is known, 2 if its last call failed. */
export const STANDING = `CASE WHEN l.failures > 0 THEN 2 ELSE coalesce(
    (SELECT CASE WHEN c.failures > 0 THEN 2 ELSE 0 END ${OF_LANE}), CASE WHEN l.delivered_total > 0 THEN 0 ELSE 1 END) END`;

const ORIGIN = `org_id = $1::uuid AND origin = millrace.origin_of('callback', $2)`;

const READ = statement('read_callback_origin', `SELECT failures FROM millrace.callback_origins WHERE ${ORIGIN}`);

const ENSURE = statement(
  'ensure_callback_origin',
  `INSERT INTO millrace.callback_origins (org_id, origin) VALUES ($1::uuid, millrace.origin_of('callback', $2)) ON CONFLICT DO NOTHING`,
);

const LOCK = statement(
  'lock_callback_origin',
  `SELECT failures, failing_since, next_at FROM millrace.callback_origins WHERE ${ORIGIN} FOR UPDATE`,
);

const WRITE = statement(
  'write_callback_origin',
  `UPDATE millrace.callback_origins SET failures = $3::int4, failing_since = $4::timestamptz, next_at = $5::timestamptz WHERE ${ORIGIN}`,
);

const FORGET = statement(
  'forget_callback_origin',
  `DELETE FROM millrace.callback_origins c USING millrace.webhook_lanes l
   WHERE l.webhook_id = $1::uuid AND l.is_callback AND c.org_id = l.org_id AND c.origin = l.origin`,
);

export type CallbackOrigin = { readonly orgId: string; readonly url: string };

/** Whether the origin's last call succeeded. Then another success changes nothing, and no row need be locked. */
export async function isSoundOrigin(client: Queryable, { orgId, url }: CallbackOrigin): Promise<boolean> {
  const [row] = await run<{ failures: number }>(client, READ, [orgId, url]);
  return row?.failures === 0;
}

/**
 * Updates the health of an origin. Its row stays locked until the transaction ends, and is always locked after the lane and the job.
 */
export async function changeOrigin(client: Queryable, { orgId, url }: CallbackOrigin, change: (health: Health) => Health): Promise<void> {
  await run(client, ENSURE, [orgId, url]);
  type Row = { failures: number; failing_since: Date | string | null; next_at: Date | string | null };
  const [row] = await run<Row>(client, LOCK, [orgId, url]);
  if (row === undefined) return;
  const { failures, failing_since: since, next_at: nextAt } = row;
  const health = change({ failures, failingSinceMs: toMs(since), nextAtMs: toMs(nextAt) });
  await run(client, WRITE, [orgId, url, health.failures, toDate(health.failingSinceMs), toDate(health.nextAtMs)]);
}

/** Deletes the health of this target's origin, if the target is a callback. Its lane must be locked. */
export async function forgetOrigin(client: Queryable, webhookId: string): Promise<void> {
  await run(client, FORGET, [webhookId]);
}

export const toMs = (at: Date | string | null): number | null => (at === null ? null : new Date(at).getTime());
export const toDate = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));
