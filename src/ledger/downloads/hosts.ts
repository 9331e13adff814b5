import type { HostLimits, HostView } from '../../core/ingest/host-gate.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const LIST = statement(
  'list_download_hosts',
  `SELECT host, requests, bytes, errors, cardinality(places) AS running, least($3::int4, coalesce(concurrency, $3::int4)) AS concurrency,
     CASE WHEN backoff_until > millrace.clock() THEN backoff_until END AS "backoffUntil", is_paused AS paused
   FROM millrace.download_hosts WHERE host > $1::text ORDER BY host LIMIT $2::int4`,
);

const PAUSE = statement(
  'pause_download_host',
  `INSERT INTO millrace.download_hosts (host, is_paused, used_at) VALUES ($1::text, $2::bool, millrace.clock())
   ON CONFLICT (host) DO UPDATE SET is_paused = excluded.is_paused`,
);

// Hosts come from users, so their number has no limit. A host that nobody called for a day is forgotten; with very many hosts sooner.
const FORGET = statement(
  'forget_download_hosts',
  `WITH old AS MATERIALIZED (
     SELECT h.host FROM millrace.download_hosts h
     WHERE NOT h.is_paused AND h.places = '{}' AND coalesce(h.backoff_until < millrace.clock(), true)
       AND h.used_at < greatest(millrace.clock() - interval '1 day', (
         SELECT least(millrace.clock() - interval '10 minutes', m.used_at)
         FROM millrace.download_hosts m ORDER BY m.used_at DESC OFFSET $1::int4 LIMIT 1))
     LIMIT 10000 FOR UPDATE SKIP LOCKED
   )
   DELETE FROM millrace.download_hosts h USING old WHERE h.host = old.host RETURNING 1 AS one`,
);

/** The hosts after this one, in the order of their names. */
export async function listHosts(
  db: Queryable,
  { after = '', limit, limits }: { after?: string; limit: number; limits: HostLimits },
): Promise<HostView[]> {
  const rows = await run<Omit<HostView, 'rate'>>(db, LIST, [after, limit, limits.concurrency]);
  return rows.map((row) => ({ ...row, rate: limits.rate }));
}

/** Processes that download notice it within a second. Requests in flight continue. */
export async function setHostPaused(db: Queryable, host: string, isPaused: boolean): Promise<void> {
  await run(db, PAUSE, [host, isPaused]);
}

/** Keeps about so many hosts that are not in use. Returns how many were removed. */
export async function forgetDownloadHosts(db: Queryable, { keep = 10_000 }: { keep?: number } = {}): Promise<number> {
  return (await run(db, FORGET, [keep])).length;
}
