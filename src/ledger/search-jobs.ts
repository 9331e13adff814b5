import { AppError } from '../core/errors.ts';
import type { Job } from '../core/job.ts';
import { filterValues, type JobFilter, MATCHES } from './job-filter.ts';
import { JOB_COLUMNS, JOB_JOINS, type JobRow, toJob } from './job-row.ts';
import { readCursor, type SearchOrder, type SearchPosition, writeCursor } from './search-cursor.ts';
import { type Queryable, run, statement } from './statement.ts';

export type { JobFilter };

export type SearchPage = { cursor?: string | null; limit?: number; order?: SearchOrder };

export type FoundJobs = {
  jobs: Job[];
  totalCount: number;
  totalIsEstimate: boolean;
  nextCursor: string | null;
  hasMore: boolean;
};

const MAX_LIMIT = 1_000;
const DEFAULT_LIMIT = 100;
const EXACT_COUNT = 10_000;

// The limit inside is none, but one the planner cannot see through: it assumes a part of the jobs and walks them in order
// until a page is full. Otherwise the filters, whose effect it cannot estimate, have it read and sort all jobs of the org
// (first page of 300 000 jobs: 1 ms against 260, or 520 before they were analysed).
const walked = (where: string, order: string) =>
  `(SELECT * FROM millrace.jobs j WHERE j.org_id = $1::uuid ${where} ORDER BY ${order}
    LIMIT (SELECT ${Number.MAX_SAFE_INTEGER}::int8)) j WHERE ${MATCHES}`;

// No index has this order, so all jobs that match are read; only the first of them are kept while sorting.
const sorted = (where: string, order: string) =>
  `millrace.jobs j WHERE j.org_id = $1::uuid ${where} AND ${MATCHES} ORDER BY ${order}`;

function pageText({ from, order, settled = 'true' }: { from: string; order: string; settled?: string }): string {
  return `
WITH page AS MATERIALIZED (SELECT j.org_id, j.seq FROM ${from} LIMIT $10::int4 + 1)
SELECT ${JOB_COLUMNS}, (extract(epoch FROM j.updated_at) * 1000000)::int8 AS updated_at_us, ${settled} AS is_settled
FROM page JOIN millrace.jobs j ON j.org_id = page.org_id AND j.seq = page.seq ${JOB_JOINS}
ORDER BY ${order}`;
}

const BEFORE_CURSOR = `AND j.seq < coalesce($11, ${Number.MAX_SAFE_INTEGER}::int8)`;
const AFTER_CURSOR = 'AND j.seq > coalesce($11, 0::int8)';
const CHANGED_BEFORE_CURSOR = `AND (j.updated_at, j.seq)
  < (coalesce(timestamptz 'epoch' + $12::int8 * interval '1 microsecond', 'infinity'), coalesce($11, 0::int8))`;
const LAST_CHANGE = 'j.updated_at DESC, j.seq DESC';

// Settled: nobody can still commit a job with a lower number, because every transaction that runs now began well after
// this row was written. A page in ascending order ends with such a row, or its cursor would pass by a late commit.
const PAGES = {
  CREATED_DESC: statement(
    'search_newest',
    pageText({ from: walked(BEFORE_CURSOR, 'j.seq DESC'), order: 'j.seq DESC' }),
  ),
  CREATED_ASC: statement(
    'search_oldest',
    pageText({ from: walked(AFTER_CURSOR, 'j.seq'), order: 'j.seq', settled: 'j.created_at < $12::timestamptz' }),
  ),
  UPDATED_DESC: statement(
    'search_changed',
    pageText({ from: sorted(CHANGED_BEFORE_CURSOR, LAST_CHANGE), order: LAST_CHANGE }),
  ),
} as const;

// Beyond the exact count: as many as the newest 10 001 matches are dense, over all the org's jobs.
const COUNT = statement(
  'count_found',
  `WITH found AS MATERIALIZED (SELECT j.seq FROM ${walked('', 'j.seq DESC')} LIMIT ${EXACT_COUNT} + 1)
   SELECT count(*)::int8 AS found, min(found.seq) AS lowest_found,
     (SELECT min(a.seq) FROM millrace.jobs a WHERE a.org_id = $1::uuid) AS lowest,
     (SELECT max(a.seq) FROM millrace.jobs a WHERE a.org_id = $1::uuid) AS highest
   FROM found`,
);

// Whoever has not written yet draws its numbers with the statement it is at, or later. A statement of one of our pools
// draws them within its timeout of 5 s.
const HORIZON = statement(
  'search_horizon',
  `SELECT millrace.clock() - interval '5 seconds'
     - (now() - least(now(), min(CASE WHEN backend_xid IS NULL THEN query_start ELSE xact_start END))) AS settled_before
   FROM pg_stat_activity
   WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
     AND (backend_xid IS NOT NULL OR state = 'active')`,
);

type PageRow = JobRow & { updated_at_us: number | string; is_settled: boolean };
type CountRow = { found: number; lowest_found: number; lowest: number; highest: number };

/** Filters are combined with AND; none finds every job of the org. */
export async function searchJobs(
  db: Queryable,
  orgId: string,
  filter: JobFilter = {},
  { cursor, limit = DEFAULT_LIMIT, order = 'CREATED_DESC' }: SearchPage = {},
): Promise<FoundJobs> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) throw invalidLimit();
  const after = cursor == null ? null : readCursor(order, cursor);
  const matching = filterValues(orgId, filter);
  const values = [...matching, limit, after?.seq ?? null];
  if (order === 'UPDATED_DESC') values.push(after?.updatedAtUs ?? null);
  // Read before the page: what commits between the two is in the page, what begins between them is after the horizon.
  if (order === 'CREATED_ASC') values.push((await run<{ settled_before: Date }>(db, HORIZON))[0]?.settled_before);
  const rows = await run<PageRow>(db, PAGES[order], values);
  const [count] = await run<CountRow>(db, COUNT, matching);
  return { ...cut(rows, { order, limit, after }), ...totalOf(count) };
}

type Cut = { order: SearchOrder; limit: number; after: SearchPosition | null };

/** The last page shows everything; a page before it ends where the next can safely begin. */
function cut(rows: PageRow[], { order, limit, after }: Cut): Pick<FoundJobs, 'jobs' | 'nextCursor' | 'hasMore'> {
  if (rows.length <= limit) return { jobs: rows.map(toJob), nextCursor: null, hasMore: false };
  let kept = rows.slice(0, limit);
  if (order === 'CREATED_ASC') kept = kept.slice(0, kept.findLastIndex((row) => row.is_settled) + 1);
  const last = kept.at(-1);
  const timed = order === 'UPDATED_DESC';
  const position =
    last === undefined
      ? (after ?? { seq: 0, updatedAtUs: null })
      : { seq: Number(last.seq), updatedAtUs: timed ? Number(last.updated_at_us) : null };
  return { jobs: kept.map(toJob), nextCursor: writeCursor(order, position), hasMore: true };
}

function totalOf(row: CountRow | undefined): Pick<FoundJobs, 'totalCount' | 'totalIsEstimate'> {
  const found = Number(row?.found ?? 0);
  if (row === undefined || found <= EXACT_COUNT) return { totalCount: found, totalIsEstimate: false };
  const [lowest, highest, lowestFound] = [Number(row.lowest), Number(row.highest), Number(row.lowest_found)];
  const density = found / (highest - lowestFound + 1);
  return { totalCount: Math.max(found, Math.round(density * (highest - lowest + 1))), totalIsEstimate: true };
}

function invalidLimit(): AppError {
  const message = `limit must be an integer from 1 to ${MAX_LIMIT}`;
  return new AppError('INVALID_REQUEST', { message, details: [{ field: 'limit', code: 'OUT_OF_RANGE', message }] });
}
