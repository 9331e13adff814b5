import type { ProxyReport } from '../../core/ingest/proxy-pools.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

export type ProxyRow = {
  readonly pool: string;
  readonly address: string;
  readonly score: number;
  readonly ejectedUntil: Date | null;
  readonly successes: number;
  readonly failures: number;
};

// Sorted, because two processes may report the same addresses.
const REPORT = statement(
  'report_download_proxies',
  `INSERT INTO millrace.download_proxies AS p (pool, address, score, ejected_until, successes, failures, updated_at)
   SELECT i.pool, i.address, i.score, millrace.clock() + i.ejected_ms * interval '1 ms', i.successes, i.failures, millrace.clock()
   FROM unnest($1::text[], $2::text[], $3::float8[], $4::float8[], $5::int8[], $6::int8[])
     AS i(pool, address, score, ejected_ms, successes, failures)
   ORDER BY i.pool, i.address
   ON CONFLICT (pool, address) DO UPDATE SET score = excluded.score, ejected_until = excluded.ejected_until,
     successes = p.successes + excluded.successes, failures = p.failures + excluded.failures, updated_at = excluded.updated_at`,
);

const LIST = statement(
  'list_download_proxies',
  `SELECT pool, address, score, CASE WHEN ejected_until > millrace.clock() THEN ejected_until END AS "ejectedUntil", successes, failures
   FROM millrace.download_proxies ORDER BY pool, address`,
);

const PAUSED = statement('paused_download_pools', 'SELECT pool FROM millrace.download_paused_pools');

const PAUSE = statement(
  'pause_download_pool',
  'INSERT INTO millrace.download_paused_pools (pool, paused_at) VALUES ($1::text, millrace.clock()) ON CONFLICT DO NOTHING',
);

const RESUME = statement('resume_download_pool', 'DELETE FROM millrace.download_paused_pools WHERE pool = $1::text');

export async function reportProxies(db: Queryable, reports: readonly ProxyReport[]): Promise<void> {
  const column = <K extends keyof ProxyReport>(name: K): ProxyReport[K][] => reports.map((report) => report[name]);
  await run(db, REPORT, [column('pool'), column('address'), column('score'), column('ejectedMs'), column('successes'), column('failures')]);
}

/** The addresses that processes have used. */
export async function listProxies(db: Queryable): Promise<ProxyRow[]> {
  return run<ProxyRow>(db, LIST);
}

export async function pausedPools(db: Queryable): Promise<ReadonlySet<string>> {
  return new Set((await run<{ pool: string }>(db, PAUSED)).map(({ pool }) => pool));
}

export async function setPoolPaused(db: Queryable, pool: string, isPaused: boolean): Promise<void> {
  await run(db, isPaused ? PAUSE : RESUME, [pool]);
}
