import type pg from 'pg';
import { run, statement, translated } from '../driver/statement.ts';

// Autovacuum analyses each day's partition but never the table they are partitions of, so the planner knows nothing of how values are
// spread over all days. Once a day is enough for that: what changes within a day is how many rows there are, and those it counts by
// itself. A ledger that fills up is looked at sooner, whenever it has grown tenfold.
const STATISTICS = statement(
  'history_statistics',
  `SELECT current_setting('server_version_num')::int4 AS version, greatest(0, max(p.reltuples))::float8 AS analysed_rows,
     sum(pg_stat_get_live_tuples(i.inhrelid))::float8 AS rows,
     coalesce(pg_stat_get_last_analyze_time('millrace.records'::regclass) < now() - interval '1 day', true) AS is_old
   FROM pg_class p JOIN pg_inherits i ON i.inhparent = p.oid WHERE p.oid = 'millrace.records'::regclass`,
);

/** With fewer rows any plan is good. */
const MIN_ROWS = 1_000;
const GROWTH = 10;
/** From 18 on the partitions, which autovacuum looks after, can be left out. */
const CAN_LEAVE_OUT_PARTITIONS = 180_000;
const TIMEOUT_MS = 600_000;

type Row = { version: number; analysed_rows: number; rows: number | null; is_old: boolean };

/** Analyses the history as a whole if that is due. While one process does so, others pass by. Answers whether it was done here. */
export async function analyzeHistory(pool: pg.Pool): Promise<boolean> {
  const [row] = await run<Row>(pool, STATISTICS);
  const rows = row?.rows ?? 0;
  if (row === undefined || rows < MIN_ROWS || !(row.is_old || rows >= row.analysed_rows * GROWTH)) return false;
  const only = row.version >= CAN_LEAVE_OUT_PARTITIONS ? 'ONLY' : '';
  await analyze(pool, `ANALYZE (SKIP_LOCKED) ${only} millrace.records`);
  return true;
}

// No transaction around it: each table is then one of its own, and none is long enough to hold readers of the feed back.
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
