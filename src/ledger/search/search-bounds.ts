import { namedStatement, type Queryable, runNamed } from '../driver/statement.ts';
import { unreadRecords } from '../history/positions.ts';
import type { JobFilter } from './job-filter.ts';
import { timeOf } from './search-statements.ts';

export type SearchBounds = {
  /** The search covers jobs with `low < seq < high`. */
  low: number;
  high: number;
  /** No job in this range changed between this time, in microseconds, and the end of the previous page. */
  changedUs: number;
};

const FAR_FUTURE_US = 8_000_000_000_000_000;
export const NO_BOUNDS: SearchBounds = { low: 0, high: Number.MAX_SAFE_INTEGER, changedUs: FAR_FUTURE_US };

const TAIL_RECORDS = 20_000;
const floorOf = (width: number, at: string) => `to_timestamp(floor(date_part('epoch', ${at}) / ${width}) * ${width})`;
const ceilOf = (width: number, at: string) => `to_timestamp(ceil(date_part('epoch', ${at}) / ${width}) * ${width})`;

type Params = { orgId: string; after: Date | null; before: Date | null; changedAfter: Date | null; cursorUs: number };
type Row = {
  is_behind: boolean;
  low: number | null;
  high: number | null;
  low_changed: number | null;
  changed_us: number | null;
};

const lowest = (column: string, at: string, unread: string) => `(SELECT min(seq) - 1 FROM (
    SELECT ${column} AS seq FROM millrace.seq_spans WHERE org_id = $orgId AND width = 60
      AND started_at >= ${floorOf(60, at)} AND started_at < ${ceilOf(86_400, at)}
    UNION ALL SELECT ${column} FROM millrace.seq_spans
      WHERE org_id = $orgId AND width = 86400 AND started_at >= ${ceilOf(86_400, at)}
    UNION ALL SELECT min_seq FROM tail WHERE org_id = $orgId AND at > ${at} AND ${unread}) a)`;

const HIGHEST = `(SELECT max(seq) + 1 FROM (
    SELECT max_seq AS seq FROM millrace.seq_spans WHERE org_id = $orgId AND width = 60
      AND started_at >= ${floorOf(86_400, '$before::timestamptz')} AND started_at < $before
    UNION ALL SELECT max_seq FROM millrace.seq_spans
      WHERE org_id = $orgId AND width = 86400 AND started_at < ${floorOf(86_400, '$before')}
    UNION ALL SELECT max_seq FROM tail WHERE org_id = $orgId AND is_birth AND at < $before) b)`;

// Reads spans of whole days, spans of minutes for the first and last day, and records that the rollup writer has not read yet.
const BOUNDS = namedStatement<Params, Row>(
  'search_bounds',
  `WITH tail AS MATERIALIZED (
  SELECT r.org_id, r.at, r.ns IS NULL AS is_birth, s.min_seq, s.max_seq FROM (
    SELECT org_id, at, ns, seqs FROM millrace.records WHERE ${unreadRecords('rollups', 'records')}
    ORDER BY txid, id LIMIT ${TAIL_RECORDS}) r
  CROSS JOIN LATERAL (SELECT min(seq) AS min_seq, max(seq) AS max_seq FROM unnest(r.seqs) AS u(seq)) s
)
SELECT b.*, (SELECT count(*) = ${TAIL_RECORDS} FROM tail) AS is_behind,
  (SELECT (extract(epoch FROM max(at)) * 1000000)::int8 FROM (
    (SELECT started_at + interval '1 minute' AS at FROM millrace.seq_spans
     WHERE org_id = $orgId AND width = 60 AND started_at <= ${timeOf('$cursorUs')} AND coalesce(changed_seq, 0) < b.high
     ORDER BY started_at DESC LIMIT 1)
    UNION ALL SELECT max(at) FROM tail WHERE org_id = $orgId AND min_seq < b.high) c WHERE $before::timestamptz IS NOT NULL) AS changed_us
FROM (SELECT ${lowest('min_seq', '$after::timestamptz', 'is_birth')} AS low, ${HIGHEST} AS high,
  ${lowest('coalesce(changed_seq, 0)', '$changedAfter::timestamptz', 'true')} AS low_changed) b`,
);

/** Returns bounds that contain every job created and changed within the times of the filter. */
export async function searchBounds(
  db: Queryable,
  orgId: string,
  { filter, cursorUs }: { filter: JobFilter; cursorUs: number | null },
): Promise<SearchBounds> {
  const { createdAfter: after, createdBefore: before, updatedAfter: changedAfter } = filter;
  if (after === undefined && before === undefined && changedAfter === undefined) return NO_BOUNDS;
  const [row] = await runNamed(db, BOUNDS, {
    orgId,
    after: after ?? null,
    before: before ?? null,
    changedAfter: changedAfter ?? null,
    cursorUs: cursorUs ?? FAR_FUTURE_US,
  });
  if (row === undefined || row.is_behind) return NO_BOUNDS;
  const low = after === undefined ? NO_BOUNDS.low : (row.low ?? NO_BOUNDS.high);
  const lowChanged = changedAfter === undefined ? NO_BOUNDS.low : (row.low_changed ?? NO_BOUNDS.high);
  return {
    low: Math.max(low, lowChanged),
    high: before === undefined ? NO_BOUNDS.high : (row.high ?? NO_BOUNDS.low),
    changedUs: row.changed_us ?? FAR_FUTURE_US,
  };
}
