import { type Queryable, run, statement } from '../driver/statement.ts';
import { unreadRecords } from '../history/positions.ts';
import type { JobFilter } from './job-filter.ts';

/** Jobs with `low < seq < high`. */
export type SeqBounds = { low: number; high: number };

export const NO_BOUNDS: SeqBounds = { low: 0, high: Number.MAX_SAFE_INTEGER };

const TAIL_RECORDS = 20_000;
const floorOf = (width: number, at: string) => `to_timestamp(floor(date_part('epoch', ${at}) / ${width}) * ${width})`;
const ceilOf = (width: number, at: string) => `to_timestamp(ceil(date_part('epoch', ${at}) / ${width}) * ${width})`;

// Whole days, the minutes of the day at the border, and the births that no span covers yet.
const BOUNDS = statement(
  'search_bounds',
  `WITH tail AS MATERIALIZED (
  SELECT r.org_id, r.at, r.ns IS NULL AS is_birth, s.min_seq, s.max_seq FROM (
    SELECT org_id, at, ns, seqs FROM millrace.records WHERE ${unreadRecords('rollups', 'records')}
    ORDER BY txid, id LIMIT ${TAIL_RECORDS}) r
  CROSS JOIN LATERAL (SELECT min(seq) AS min_seq, max(seq) AS max_seq FROM unnest(r.seqs) AS u(seq)) s
)
SELECT (SELECT count(*) = ${TAIL_RECORDS} FROM tail) AS is_behind,
  (SELECT min(seq) - 1 FROM (
    SELECT min_seq AS seq FROM millrace.seq_spans WHERE org_id = $1::uuid AND width = 60
      AND started_at >= ${floorOf(60, '$2::timestamptz')} AND started_at < ${ceilOf(86_400, '$2')}
    UNION ALL SELECT min_seq FROM millrace.seq_spans
      WHERE org_id = $1::uuid AND width = 86400 AND started_at >= ${ceilOf(86_400, '$2')}
    UNION ALL SELECT min_seq FROM tail WHERE org_id = $1::uuid AND is_birth AND at > $2) a) AS low,
  (SELECT min(seq) - 1 FROM (
    SELECT first_seq AS seq FROM millrace.postings WHERE org_id = $1::uuid AND term = 'changed' AND high > $4::int8
    UNION ALL SELECT min_seq FROM tail WHERE org_id = $1::uuid) c) AS low_changed,
  (SELECT max(seq) + 1 FROM (
    SELECT max_seq AS seq FROM millrace.seq_spans WHERE org_id = $1::uuid AND width = 60
      AND started_at >= ${floorOf(86_400, '$3::timestamptz')} AND started_at < $3
    UNION ALL SELECT max_seq FROM millrace.seq_spans
      WHERE org_id = $1::uuid AND width = 86400 AND started_at < ${floorOf(86_400, '$3')}
    UNION ALL SELECT max_seq FROM tail WHERE org_id = $1::uuid AND is_birth AND at < $3) b) AS high`,
);

type Row = { is_behind: boolean; low: number | null; low_changed: number | null; high: number | null };

/** Between which numbers all jobs lie that were created and changed in the time asked for. */
export async function seqBounds(db: Queryable, orgId: string, filter: JobFilter): Promise<SeqBounds> {
  const { createdAfter, createdBefore, updatedAfter } = filter;
  if (createdAfter === undefined && createdBefore === undefined && updatedAfter === undefined) return NO_BOUNDS;
  const changedAfterUs = updatedAfter === undefined ? null : updatedAfter.getTime() * 1_000;
  const [row] = await run<Row>(db, BOUNDS, [orgId, createdAfter ?? null, createdBefore ?? null, changedAfterUs]);
  if (row === undefined || row.is_behind) return NO_BOUNDS;
  const lowest = (asked: Date | undefined, low: number | null) =>
    asked === undefined ? NO_BOUNDS.low : Number(low ?? NO_BOUNDS.high);
  return {
    low: Math.max(lowest(createdAfter, row.low), lowest(updatedAfter, row.low_changed)),
    high: createdBefore === undefined ? NO_BOUNDS.high : Number(row.high ?? NO_BOUNDS.low),
  };
}
