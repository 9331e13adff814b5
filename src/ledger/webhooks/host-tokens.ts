import { int8Array, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// The caller holds the promoter's lock, so no other statement writes these rows. A host that was not called lately has a full bucket.
const TAKE = statement(
  'take_host_tokens',
  `WITH asked AS MATERIALIZED (
  SELECT i.host, i.wanted, least($3::float8, coalesce(
    h.tokens + $3::float8 * greatest(0, extract(epoch FROM millrace.clock() - h.updated_at)::float8), $3::float8)) AS room
  FROM unnest($1::text[], $2::int8[]) AS i(host, wanted)
  LEFT JOIN LATERAL (SELECT t.tokens, t.updated_at FROM millrace.webhook_hosts t WHERE t.host = i.host OFFSET 0) h ON true
), granted AS MATERIALIZED (
  SELECT host, room, least(wanted, floor(room)::int8) AS granted FROM asked
), written AS (
  INSERT INTO millrace.webhook_hosts (host, tokens, updated_at) SELECT host, room - granted, millrace.clock() FROM granted
  ON CONFLICT (host) DO UPDATE SET tokens = excluded.tokens, updated_at = excluded.updated_at
)
SELECT host, granted FROM granted`,
);

const POSTPONE = statement(
  'postpone_lanes',
  `UPDATE millrace.webhook_lanes l SET is_ready = false, due_at = millrace.clock() + i.delay_ms * interval '1 ms'
   FROM unnest($1::uuid[], $2::int8[]) AS i(webhook_id, delay_ms) WHERE l.webhook_id = i.webhook_id`,
);

// A bucket is full again after a second.
const FORGET = statement(
  'forget_hosts',
  `DELETE FROM millrace.webhook_hosts WHERE updated_at < millrace.clock() - interval '10 minutes' RETURNING 1 AS one`,
);

export type HostDemand = { readonly host: string; readonly wanted: number };

/** Takes as many tokens as each host has, up to what is wanted. A bucket holds the tokens of one second. */
export async function takeHostTokens(db: Queryable, demands: readonly HostDemand[], perSecond: number): Promise<Map<string, number>> {
  const rows = await run<{ host: string; granted: number }>(db, TAKE, [
    textArray(demands.map(({ host }) => host)),
    int8Array(demands.map(({ wanted }) => wanted)),
    perSecond,
  ]);
  return new Map(rows.map(({ host, granted }) => [host, granted]));
}

/** Makes locked lanes due later. Their deliveries stay as they are. */
export async function postponeLanes(db: Queryable, lanes: readonly { webhookId: string; delayMs: number }[]): Promise<void> {
  await run(db, POSTPONE, [uuidArray(lanes.map(({ webhookId }) => webhookId)), int8Array(lanes.map(({ delayMs }) => Math.ceil(delayMs)))]);
}

/** Removes hosts that were not called lately. */
export async function forgetHosts(db: Queryable): Promise<number> {
  return (await run(db, FORGET)).length;
}
