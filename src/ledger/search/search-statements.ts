import { type NamedStatement, namedStatement } from '../driver/statement.ts';
import { eventsIn } from '../history/positions.ts';
import { JOB_COLUMNS, JOB_JOINS, type PayloadRow, payloadColumns } from '../reads/job-row.ts';
import { type FilterParams, MATCHES } from './job-filter.ts';
import type { SearchOrder } from './search-cursor.ts';

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
  /** The number of jobs that match, if all of them were looked up. */
  total: number | null;
  place: number | null;
  is_place_settled: boolean;
};

/** The source of a page. `all`: the jobs of the org in order. `few`: a list of jobs that one filter found. */
export type Source = 'all' | 'few';
type Direction = 'down' | 'up';

/**
 * The tables of a page. `matched` has the jobs that match the filter, as far as the frontier. `frontier` has one row with `place`: the
 * last job that was looked at, or null if no job is left beyond it.
 */
const tablesOf = (source: Source, direction: Direction): string => (source === 'all' ? allText(direction) : fewText(direction));

const RANGE = 'j.org_id = $orgId::uuid AND j.seq > $low::int8 AND j.seq < $high::int8';

/** Selects the candidates that match. The OFFSET keeps the planner from scanning all jobs to find them. */
const lookedUp = (candidates: string): string => `SELECT j.org_id, c.seq, j.updated_at FROM ${candidates} c
    CROSS JOIN LATERAL (SELECT j.org_id, j.updated_at FROM millrace.jobs j
      WHERE j.org_id = $orgId::uuid AND j.seq = c.seq AND ${MATCHES} OFFSET 0) j`;

// PostgreSQL finds the frontier in the index alone, then reads jobs until the page is full.
function allText(direction: Direction): string {
  const [order, within] =
    direction === 'down'
      ? ['DESC', 'j.seq >= coalesce((SELECT place FROM frontier), 0)']
      : ['ASC', `j.seq <= coalesce((SELECT place FROM frontier), ${Number.MAX_SAFE_INTEGER})`];
  return `frontier AS MATERIALIZED (
  SELECT (SELECT j.seq FROM millrace.jobs j WHERE ${RANGE} ORDER BY j.seq ${order} OFFSET $budget::int4 - 1 LIMIT 1) AS place
), matched AS (SELECT j.org_id, j.seq, j.updated_at FROM millrace.jobs j WHERE ${RANGE} AND ${within} AND ${MATCHES})`;
}

// PostgreSQL looks up the listed jobs in order until the page is full.
function fewText(direction: Direction): string {
  const [order, last] = direction === 'down' ? ['DESC', 'min'] : ['ASC', 'max'];
  return `candidates AS MATERIALIZED (
  SELECT DISTINCT s.seq FROM unnest($seqs::text::int8[]) AS s(seq) WHERE s.seq > $low::int8 AND s.seq < $high::int8
  ORDER BY s.seq ${order} LIMIT $budget::int4
), frontier AS MATERIALIZED (
  SELECT CASE WHEN count(*) = $budget::int4 THEN ${last}(seq) END AS place FROM candidates
), matched AS (${lookedUp(`(SELECT seq FROM candidates ORDER BY seq ${order})`)})`;
}

/** The SQL of a time that is given in microseconds since 1970, as in a cursor. */
export const timeOf = (us: string): string => `(timestamptz 'epoch' + ${us}::int8 * interval '1 microsecond')`;

/**
 * Finds jobs in the order of their last change, newest first. The statement reads records until they name enough jobs, and reads records
 * of one moment together. `place` is the time of the last record.
 */
const CHANGED_TABLES = `read AS MATERIALIZED (
  SELECT r.at, r.seqs, ${eventsIn()} AS jobs FROM millrace.records r
  WHERE r.org_id = $orgId::uuid AND r.at <= ${timeOf('$untilUs')} AND r.at > ${timeOf('$sinceUs')}
  ORDER BY r.at DESC FETCH FIRST ($budget::int4) ROWS WITH TIES
), counted AS MATERIALIZED (
  SELECT at, seqs, coalesce(sum(jobs) OVER (ORDER BY at DESC GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < $budget::int4 AS is_used
  FROM read
), frontier AS MATERIALIZED (
  SELECT CASE WHEN count(*) >= $budget::int4 OR NOT bool_and(is_used) THEN
    (extract(epoch FROM min(at) FILTER (WHERE is_used)) * 1000000)::int8 END AS place FROM counted
), matched AS (${lookedUp('(SELECT DISTINCT unnest(seqs) AS seq FROM counted WHERE is_used ORDER BY seq)')}
  WHERE j.updated_at >= coalesce((SELECT ${timeOf('place')} FROM frontier), '-infinity'))`;

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

// Returns a row for each job of the page, or one row without a job, because the caller always needs the frontier.
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
