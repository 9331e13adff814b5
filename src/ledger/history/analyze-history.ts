import type pg from 'pg';
import { run, statement, translated } from '../driver/statement.ts';

// Autovacuum analyses each daily partition but never their parent table, so the planner does not know how values are distributed over
// all days. Once a day is enough: within a day only the number of rows changes, and the planner counts those itself. A growing ledger
// is analysed sooner, whenever it has grown tenfold.
const STATISTICS = statement(
  'history_statistics',
  `SELECT current_setting('server_version_num')::int4 AS version, greatest(0, max(p.reltuples))::float8 AS analysed_rows,
     sum(pg_stat_get_live_tuples(i.inhrelid))::float8 AS rows,
     coalesce(pg_stat_get_last_analyze_time('millrace.records'::regclass) < now() - interval '1 day', true) AS is_old
   FROM pg_class p JOIN pg_inherits i ON i.inhparent = p.oid WHERE p.oid = 'millrace.records'::regclass`,
);

/** With fewer rows every plan is good. */
const MIN_ROWS = 1_000;
const GROWTH = 10;
/** From version 18 on ANALYZE can skip the partitions, which autovacuum covers. */
const CAN_LEAVE_OUT_PARTITIONS = 180_000;
const TIMEOUT_MS = 600_000;

type Row = { version: number; analysed_rows: number; rows: number | null; is_old: boolean };

/**
 * Analyses the parent table of the history if that is due. While one process does so, the others skip it. Returns whether it ran here.
 */
export async function analyzeHistory(pool: pg.Pool): Promise<boolean> {
  const [row] = await run<Row>(pool, STATISTICS);
  const rows = row?.rows ?? 0;
  if (row === undefined || rows < MIN_ROWS || !(row.is_old || rows >= row.analysed_rows * GROWTH)) return false;
  const only = row.version >= CAN_LEAVE_OUT_PARTITIONS ? 'ONLY' : '';
  await analyze(pool, `ANALYZE (SKIP_LOCKED) ${only} millrace.records`);
  return true;
}

// Without a surrounding transaction, each table is analysed in its own, and none lasts long enough to delay readers of the feed.
async function analyze(pool: pg.Pool, text: string): Promise<void> {
  const client = await pool.connect().catch((error) => {
    throw translated(error);
  });
  let isLeft = false;
  try {
    await client.query(`SET statement_timeout = ${TIMEOUT_MS}`);
    await client.query({ text, query_timeout: TIMEOUT_MS } as pg.QueryConfig);
    await client.query('RESET statement_timeout');
    isLeft = true;
  } catch (error) {
    throw translated(error);
  } finally {
    client.release(!isLeft);
  }
}
