import type { Amounts } from '../../core/fair-share.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** What a job takes in addition to its payload, result and tags: the row, its index entries and its history. */
export const ROW_BYTES = 1_024;
/** How many pages of `jobs` one look reads at most: 16 MB. A table that is smaller is read whole. */
const MAX_PAGES = 2_000;
const PAGE_BYTES = 8_192;
/** More orgs than this are not listed. Those that are left out have the fewest bytes. */
const MAX_ORGS = 1_000;

const PART = `least(1, ${MAX_PAGES * PAGE_BYTES}::float8 / greatest(1, pg_relation_size('millrace.jobs')))`;

// `pg_column_size` reads the size of a large value from its pointer, not the value. Each row also has the total of all orgs.
const SAMPLE = statement(
  'sample_stored_bytes',
  `SELECT org_id, sum(bytes) AS bytes, sum(sum(bytes)) OVER () AS total FROM (
     SELECT org_id, sum(${ROW_BYTES} + coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(payload_bytes), 0)
         + coalesce(pg_column_size(result), 0) + coalesce(pg_column_size(result_bytes), 0) + coalesce(pg_column_size(tags), 0)
       )::float8 / ${PART} AS bytes
     FROM millrace.jobs TABLESAMPLE SYSTEM (100 * ${PART}) GROUP BY org_id
     UNION ALL
     SELECT org_id, sum(size)::float8 FROM millrace.artifacts WHERE state = 'stored' GROUP BY org_id) AS stored
   GROUP BY org_id ORDER BY bytes DESC LIMIT ${MAX_ORGS}`,
);

/**
 * Estimates from a sample of pages how many bytes the stored jobs of each org take, and adds its artifacts. An org with a large part of the
 * table is estimated well; the estimate of the jobs of a small org may be zero.
 */
export async function sampleStoredBytes(db: Queryable): Promise<Amounts> {
  const rows = await run<{ org_id: string; bytes: number; total: number }>(db, SAMPLE, []);
  return { all: rows[0]?.total ?? 0, holders: new Map(rows.map(({ org_id, bytes }) => [org_id, bytes])) };
}
