import { AppError } from '../../core/errors.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { JOB_COLUMNS, JOB_JOINS, type JobRow, toJob } from '../reads/job-row.ts';
import { filterValues, type JobFilter } from './job-filter.ts';
import { NO_BOUNDS, type SeqBounds, seqBounds } from './search-bounds.ts';
import { readCursor, type SearchOrder, type SearchPosition, type SearchScope, writeCursor } from './search-cursor.ts';
import type { FoundJobs, SearchPage } from './search-page.ts';
import { hasEnded, settledJobs } from './search-settling.ts';
import {
  ALL_JOBS,
  CHANGED_CANDIDATES,
  candidatesText,
  chooseSource,
  FEW_CANDIDATES,
  isFew,
  MATCHING,
  matchingText,
  type Source,
  siftingTerms,
} from './search-source.ts';
import { sourceValues, totalOf } from './search-total.ts';

export type { FoundJobs, JobFilter, SearchPage };

const MAX_LIMIT = 1_000;
const DEFAULT_LIMIT = 100;
/** Jobs looked at for a page before it is given out as it is, with more to come. In order they lie side by side; else each is a page. */
const BUDGET = { all: 8_000, named: 2_000, changed: 3_000, sifted: 28_000 };

/** Where many match, a first look is all there is to do. */
const firstLook = (limit: number, order: SearchOrder) =>
  order === 'UPDATED_DESC' ? Math.min(16 * limit + 400, BUDGET.changed) : Math.min(10 * limit + 1_000, BUDGET.all / 2);

type PageText = {
  candidates: string;
  matching: string;
  within: string;
  order: string;
  first?: string;
  frontier: string;
  settled?: string;
  frontierSettled?: string;
};

// A row for each job of the page, or one without a job where none was found: the frontier is needed in any case.
function pageText({
  candidates,
  matching,
  within,
  order,
  first = order,
  frontier,
  settled = 'true',
  frontierSettled = 'true',
}: PageText): string {
  return `
WITH ${candidates}, page AS MATERIALIZED (
  SELECT j.org_id, j.seq FROM ${matching} WHERE ${within} ORDER BY ${first} LIMIT $10::int4 + 1
)
SELECT ${JOB_COLUMNS}, (extract(epoch FROM j.updated_at) * 1000000)::int8 AS updated_at_us, ${settled} AS is_settled,
  f.place AS frontier, ${frontierSettled} AS is_frontier_settled
FROM (${frontier}) f LEFT JOIN (page JOIN millrace.jobs j ON j.org_id = page.org_id AND j.seq = page.seq ${JOB_JOINS}) ON true
ORDER BY ${order}`;
}

const createdText = (kind: Source['kind'], direction: 'down' | 'up') =>
  pageText({
    candidates: candidatesText(kind, direction),
    matching: matchingText(kind, direction),
    within:
      direction === 'down'
        ? 'c.seq > coalesce((SELECT seq FROM frontier), 0)'
        : `c.seq < coalesce((SELECT seq FROM frontier), ${Number.MAX_SAFE_INTEGER})`,
    order: direction === 'down' ? 'j.seq DESC' : 'j.seq',
    // The order of the candidates themselves: only as many are looked up as a page needs.
    first: direction === 'down' ? 'c.seq DESC' : 'c.seq',
    frontier: 'SELECT seq AS place FROM frontier',
    ...(direction === 'up' ? settledTexts(kind) : {}),
  });

// Settled: no transaction can still commit a job with a lower number. Every transaction that runs now began well after this row was
// written, or the projector saw all earlier ones end. A page in ascending order ends with such a row, or its cursor would skip a late
// commit. Where it ends with the frontier, the same is asked of the first job that was not looked at.
const settledTexts = (kind: Source['kind']) => {
  const [before, seq] = kind === 'all' ? ['$14::timestamptz', '$15::int8'] : ['$17::timestamptz', '$18::int8'];
  const beyond =
    'SELECT a.created_at FROM millrace.jobs a WHERE a.org_id = $1::uuid AND a.seq >= f.place ORDER BY a.seq LIMIT 1';
  return {
    settled: `coalesce(j.seq <= ${seq} OR j.created_at < ${before}, false)`,
    frontierSettled: `coalesce(f.place - 1 <= ${seq} OR (${beyond}) < ${before}, false)`,
  };
};

const LAST_CHANGE = 'j.updated_at DESC, j.seq DESC';
const moment = (us: string) => `timestamptz 'epoch' + ${us}::int8 * interval '1 microsecond'`;
const BEFORE_CURSOR = `(j.updated_at, j.seq) < (${moment('$11')}, $12::int8)`;

const PAGES = {
  CREATED_DESC: {
    all: statement('search_newest', createdText('all', 'down')),
    named: statement('search_newest_named', createdText('named', 'down')),
  },
  CREATED_ASC: {
    all: statement('search_oldest', createdText('all', 'up')),
    named: statement('search_oldest_named', createdText('named', 'up')),
  },
  UPDATED_DESC: {
    all: statement(
      'search_changed',
      pageText({
        candidates: CHANGED_CANDIDATES,
        matching: MATCHING,
        within: `${BEFORE_CURSOR} AND j.updated_at > coalesce((SELECT ${moment('us')} FROM frontier), '-infinity')`,
        order: LAST_CHANGE,
        frontier: 'SELECT us AS place FROM frontier',
      }),
    ),
    named: statement(
      'search_changed_named',
      pageText({
        candidates: FEW_CANDIDATES,
        matching: MATCHING,
        within: `${BEFORE_CURSOR} AND $13::int4 IS NOT NULL`,
        order: LAST_CHANGE,
        frontier: 'SELECT NULL::int8 AS place',
      }),
    ),
  },
} as const;

type PageRow = JobRow & {
  updated_at_us: number | string;
  is_settled: boolean;
  frontier: number | string | null;
  is_frontier_settled: boolean;
};

const NOTHING: FoundJobs = { jobs: [], totalCount: 0, totalIsEstimate: false, nextCursor: null, hasMore: false };

type Looked = { rows: PageRow[]; source: Source };

type Search = {
  orgId: string;
  matching: readonly unknown[];
  updatedAfterUs: number;
  order: SearchOrder;
  limit: number;
  after: SearchPosition | null;
  scope: SearchScope;
  bounds: SeqBounds;
  sifted?: readonly string[] | null;
};

/**
 * Filters are combined with AND; none finds every job of the org. A page that would cost too much to fill is given out short, even
 * empty, with `hasMore` and a cursor: the search goes on from there.
 */
export async function searchJobs(
  db: Queryable,
  orgId: string,
  filter: JobFilter = {},
  { cursor, limit = DEFAULT_LIMIT, order = 'CREATED_DESC', cursorFilter, total: counts = true }: SearchPage = {},
): Promise<FoundJobs> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) throw invalidLimit();
  const scope: SearchScope = { orgId, filter: { ledger: filter, reader: cursorFilter }, order };
  const search: Search = {
    orgId,
    order,
    limit,
    scope,
    matching: filterValues(orgId, filter),
    after: cursor == null ? null : readCursor(scope, cursor),
    updatedAfterUs: Math.max(filter.updatedAfter?.getTime() ?? 0, filter.createdAfter?.getTime() ?? 0) * 1_000,
    bounds: await seqBounds(db, orgId, filter),
  };
  if (search.bounds.low + 1 >= search.bounds.high) return NOTHING;
  const { rows, source } = await lookSettled(db, search, filter);
  const page = cut(rows, search);
  const isAll = !page.hasMore && search.after === null;
  if (isAll || !counts) return { ...page, totalCount: page.jobs.length, totalIsEstimate: !isAll };
  const total = await totalOf(db, { ...search, source });
  return { ...page, ...total, totalCount: Math.max(total.totalCount, page.jobs.length) };
}

/**
 * In ascending order a page cannot end with a job that a lower one may still join. Where it would, whatever runs now is given a moment
 * to end: what was seen before that moment has then no lower one to come.
 */
async function lookSettled(db: Queryable, search: Search, filter: JobFilter): Promise<Looked> {
  const first = await look(db, search, filter);
  const seen = edgeOf(first.rows, search);
  if (seen === null || !(await hasEnded(db))) return first;
  const again = await look(db, search, filter);
  const settle = (row: PageRow): PageRow => ({
    ...row,
    is_settled: row.is_settled || Number(row.seq) <= seen,
    is_frontier_settled: row.is_frontier_settled || Number(row.frontier) - 1 <= seen,
  });
  return { ...again, rows: again.rows.map(settle) };
}

/** How far a page in ascending order has seen, if it would be cut short there; else null. */
function edgeOf(rows: readonly PageRow[], { order, limit }: Search): number | null {
  const found = rows.filter((row) => row.id !== null);
  const [first, last] = [rows[0], found[Math.min(found.length, limit) - 1]];
  const frontier = first?.frontier ?? null;
  const isOpen = last?.is_settled === false && (frontier !== null || found.length > limit);
  const isFrontierOpen = frontier !== null && first?.is_frontier_settled === false;
  if (order !== 'CREATED_ASC' || !(isOpen || isFrontierOpen)) return null;
  return Math.max(Number(last?.seq ?? 0), Number(frontier ?? 1) - 1);
}

/** A short look at the jobs in order first: where many match it is all there is to do. */
async function look(db: Queryable, search: Search, filter: JobFilter): Promise<Looked> {
  if (filter.ids === undefined) {
    const rows = await read(db, search, ALL_JOBS, firstLook(search.limit, search.order));
    const isFull = rows.length > search.limit || rows[0]?.frontier == null;
    if (isFull) return { rows, source: ALL_JOBS };
  }
  const source = await chooseSource(db, search.orgId, filter);
  const isSorted = search.order !== 'UPDATED_DESC' || isFew(source) || filter.ids !== undefined;
  if (isSorted) return { rows: await read(db, search, source, BUDGET[source.kind]), source };
  const terms = siftingTerms(source);
  const budget = terms === null ? BUDGET.changed : BUDGET.sifted;
  return { rows: await read(db, { ...search, sifted: terms }, ALL_JOBS, budget), source };
}

async function read(db: Queryable, search: Search, source: Source, budget: number): Promise<PageRow[]> {
  const { matching, order, limit, after, bounds } = search;
  if (order === 'UPDATED_DESC') {
    const from = [after?.updatedAtUs ?? FAR_FUTURE_US, after?.seq ?? 0];
    const rest =
      source.kind === 'all'
        ? [budget, search.updatedAfterUs, bounds.low, bounds.high, search.sifted ?? null]
        : sourceValues(source, budget);
    return run<PageRow>(db, PAGES[order][source.kind], [...matching, limit, ...from, ...rest]);
  }
  const down = order === 'CREATED_DESC';
  const low = down ? bounds.low : Math.max(bounds.low, after?.seq ?? 0);
  const high = down ? Math.min(bounds.high, after?.seq ?? NO_BOUNDS.high) : bounds.high;
  const values = [...matching, limit, low, high, ...sourceValues(source, budget)];
  // Read before the page: what commits between the two is in the page, what begins between them is after the horizon.
  if (!down) {
    const { before, seq } = await settledJobs(db);
    values.push(before, seq);
  }
  return run<PageRow>(db, PAGES[order][source.kind], values);
}

const FAR_FUTURE_US = 8_000_000_000_000_000;

/** The last page shows everything; a page before it ends where the next can safely begin. */
function cut(rows: PageRow[], search: Search): Pick<FoundJobs, 'jobs' | 'nextCursor' | 'hasMore'> {
  const { order, limit, after, scope } = search;
  const found = rows.filter((row) => row.id !== null);
  const frontier = rows[0]?.frontier == null ? null : Number(rows[0].frontier);
  if (found.length <= limit && frontier === null) return { jobs: found.map(toJob), nextCursor: null, hasMore: false };
  let kept = found.slice(0, limit);
  if (order === 'CREATED_ASC') kept = kept.slice(0, kept.findLastIndex((row) => row.is_settled) + 1);
  const isWhole = found.length <= limit && kept.length === found.length;
  const last = kept.at(-1);
  let position = last === undefined ? (after ?? startOf(order)) : positionOf(last, order);
  // Nothing on this side of the frontier was left out, so the next page begins there.
  if (isWhole && frontier !== null && rows[0]?.is_frontier_settled) position = positionAt(frontier, order);
  return { jobs: kept.map(toJob), nextCursor: writeCursor(scope, position), hasMore: true };
}

const startOf = (order: SearchOrder): SearchPosition =>
  order === 'UPDATED_DESC'
    ? { seq: 0, updatedAtUs: FAR_FUTURE_US }
    : { seq: order === 'CREATED_ASC' ? 0 : NO_BOUNDS.high, updatedAtUs: null };

function positionOf(row: PageRow, order: SearchOrder): SearchPosition {
  return { seq: Number(row.seq), updatedAtUs: order === 'UPDATED_DESC' ? Number(row.updated_at_us) : null };
}

function positionAt(frontier: number, order: SearchOrder): SearchPosition {
  if (order === 'UPDATED_DESC') return { seq: 0, updatedAtUs: frontier + 1 };
  return { seq: order === 'CREATED_DESC' ? frontier + 1 : frontier - 1, updatedAtUs: null };
}

function invalidLimit(): AppError {
  const message = `limit must be an integer from 1 to ${MAX_LIMIT}`;
  return new AppError('INVALID_REQUEST', { message, details: [{ field: 'limit', code: 'OUT_OF_RANGE', message }] });
}
