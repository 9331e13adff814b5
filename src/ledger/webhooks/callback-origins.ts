import type { Health } from '../../core/breaker.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// Callbacks share the health of their origin: jobs may name a URL each, and a host that hangs would be new with every one of them.
const OF_LANE = 'FROM millrace.callback_origins c WHERE l.is_callback AND c.org_id = l.org_id AND c.origin = l.origin';

/** Until when the origin of the lane `l` is left alone; null unless it is a callback's and failed. */
export const ORIGIN_NEXT_AT = `(SELECT c.next_at ${OF_LANE})`;

/** How much the lane `l` is trusted: 0 it answered last, 1 nothing is known of it, 2 it failed last. */
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

/** Whether the origin is known and answered last: then a success changes nothing, and no row is waited for. */
export async function isSoundOrigin(client: Queryable, { orgId, url }: CallbackOrigin): Promise<boolean> {
  const [row] = await run<{ failures: number }>(client, READ, [orgId, url]);
  return row?.failures === 0;
}

/** Changes what is known of an origin. Its row is locked until the transaction ends, and always after the lane and the job. */
export async function changeOrigin(
  client: Queryable,
  { orgId, url }: CallbackOrigin,
  change: (health: Health) => Health,
): Promise<void> {
  await run(client, ENSURE, [orgId, url]);
  type Row = { failures: number; failing_since: Date | string | null; next_at: Date | string | null };
  const [row] = await run<Row>(client, LOCK, [orgId, url]);
  if (row === undefined) return;
  const { failures, failing_since: since, next_at: nextAt } = row;
  const health = change({ failures, failingSinceMs: toMs(since), nextAtMs: toMs(nextAt) });
  await run(client, WRITE, [orgId, url, health.failures, toDate(health.failingSinceMs), toDate(health.nextAtMs)]);
}

/** Nothing is known any more of the origin of this target, if it is a callback. Only with its lane locked. */
export async function forgetOrigin(client: Queryable, webhookId: string): Promise<void> {
  await run(client, FORGET, [webhookId]);
}

export const toMs = (at: Date | string | null): number | null => (at === null ? null : new Date(at).getTime());
export const toDate = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));
