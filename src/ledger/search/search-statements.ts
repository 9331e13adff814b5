import { type NamedStatement, namedStatement } from '../driver/statement.ts';
import { JOB_COLUMNS, JOB_JOINS, type PayloadRow, payloadColumns } from '../reads/job-row.ts';
import type { FilterParams } from './job-filter.ts';
import type { SearchOrder } from './search-cursor.ts';
import { CHANGED_TABLES, type Direction, type Source, tablesOf, timeOf } from './walk-jobs.ts';

export type PageParams = FilterParams & {
  orgId: string;
  limit: number;
  budget: number;
  low: number;
  high: number;
  seqs: string;
  sinceUs: number;
  untilUs: number;
  cursorUs: number;
  cursorSeq: number;
  settledSeq: number;
  settledBefore: Date | null;
  payload: boolean;
};

export type PageRow = PayloadRow & {
  updated_at_us: number;
  is_settled: boolean;
  /** How many jobs match, if all of them were looked up. */
  total: number | null;
  place: number | null;
  is_place_settled: boolean;
};

// Settled: no transaction can still commit a job with a lower number. A page in ascending order ends with such a job, or its cursor
// would skip a late commit.
const SETTLED = 'coalesce(j.seq <= $settledSeq::int8 OR j.created_at < $settledBefore::timestamptz, false)';
const PLACE_SETTLED = `(SELECT ${SETTLED} FROM millrace.jobs j WHERE j.org_id = $orgId::uuid AND j.seq = f.place)`;

const IN_RANGE = 'm.seq > $low::int8 AND m.seq < $high::int8';
const BEFORE_CURSOR = `(m.updated_at, m.seq) < (${timeOf('$cursorUs')}, $cursorSeq::int8)`;

const ORDERS = {
  CREATED_DESC: { by: 'seq DESC', within: IN_RANGE, direction: 'down' },
  CREATED_ASC: { by: 'seq', within: IN_RANGE, direction: 'up' },
  UPDATED_DESC: { by: 'updated_at DESC, seq DESC', within: BEFORE_CURSOR, direction: 'down' },
} as const satisfies Record<SearchOrder, { by: string; within: string; direction: Direction }>;

// A row for each job of the page, or one row without a job: the frontier is needed in any case.
function pageOf(order: SearchOrder, source: Source): NamedStatement<PageParams, PageRow> {
  const { by, within, direction } = ORDERS[order];
  const sorted = (table: string) => by.replaceAll(/\b(seq|updated_at)\b/g, `${table}.$1`);
  const isUp = direction === 'up';
  const isSorted = order === 'UPDATED_DESC' && source === 'few';
  const isWalk = order === 'UPDATED_DESC' && source !== 'few';
  return namedStatement(
    `search_${order.toLowerCase()}_${source}`,
    `WITH ${isWalk ? CHANGED_TABLES : tablesOf(source, direction)}, page AS MATERIALIZED (
  SELECT m.org_id, m.seq FROM matched m WHERE ${within} ORDER BY ${sorted('m')} LIMIT $limit::int4 + 1
)
SELECT ${JOB_COLUMNS}, ${payloadColumns('$payload::boolean')}, (extract(epoch FROM j.updated_at) * 1000000)::int8 AS updated_at_us, f.place,
  ${isSorted ? '(SELECT count(*) FROM matched)::int4' : 'NULL::int4'} AS total,
  ${isUp ? SETTLED : 'true'} AS is_settled, ${isUp ? PLACE_SETTLED : 'true'} AS is_place_settled
FROM frontier f LEFT JOIN (page JOIN millrace.jobs j ON j.org_id = page.org_id AND j.seq = page.seq ${JOB_JOINS}) ON true
ORDER BY ${sorted('j')}`,
  );
}

const pagesOf = (order: SearchOrder) => ({ all: pageOf(order, 'all'), few: pageOf(order, 'few') });

export const PAGES = {
  CREATED_DESC: pagesOf('CREATED_DESC'),
  CREATED_ASC: pagesOf('CREATED_ASC'),
  UPDATED_DESC: pagesOf('UPDATED_DESC'),
};

type CountRow = { found: number; place: number | null; lowest: number; highest: number };

const countOf = (source: Source): NamedStatement<PageParams, CountRow> =>
  namedStatement(
    `count_found_${source}`,
    `WITH ${tablesOf(source, 'down')}
SELECT (SELECT count(*) FROM matched)::int4 AS found, f.place,
  (SELECT min(j.seq) FROM millrace.jobs j WHERE j.org_id = $orgId::uuid AND j.seq > $low::int8) AS lowest,
  (SELECT max(j.seq) FROM millrace.jobs j WHERE j.org_id = $orgId::uuid AND j.seq < $high::int8) AS highest
FROM frontier f`,
  );

export const COUNTS = { all: countOf('all'), few: countOf('few') };
