import { AppError } from '../core/errors.ts';
import type { Job } from '../core/job.ts';
import { type Priority, priorityNumber } from '../core/priority.ts';
import type { JobState } from '../core/states.ts';
import { JOB_COLUMNS, JOB_JOINS, type JobRow, toJob } from './job-row.ts';
import { readCursor, type SearchOrder, type SearchPosition, writeCursor } from './search-cursor.ts';
import { type Queryable, run, statement } from './statement.ts';

export type JobFilter = {
  types?: readonly string[];
  states?: readonly JobState[];
  priorities?: readonly Priority[];
  /** Every tag named must be there with exactly this value. */
  tags?: Readonly<Record<string, string>>;
  createdAfter?: Date;
  createdBefore?: Date;
  updatedAfter?: Date;
  ids?: readonly string[];
};

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

const MATCHES = `j.org_id = $1::uuid
  AND ($2::text[] IS NULL OR j.job_type = ANY ($2))
  AND ($3::text[] IS NULL OR j.state = ANY ($3::millrace.job_state[]))
  AND ($4::int2[] IS NULL OR j.priority = ANY ($4))
  AND ($5::jsonb IS NULL OR j.tags @> $5)
  AND ($6::timestamptz IS NULL OR j.created_at > $6)
  AND ($7::timestamptz IS NULL OR j.created_at < $7)
  AND ($8::timestamptz IS NULL OR j.updated_at > $8)
  AND ($9::uuid[] IS NULL OR j.id = ANY ($9))`;

function pageText({ keyset, order, settled }: { keyset: string; order: string; settled: string }): string {
  return `
SELECT ${JOB_COLUMNS}, (extract(epoch FROM j.updated_at) * 1000000)::int8 AS updated_at_us, ${settled} AS is_settled
FROM millrace.jobs j ${JOB_JOINS}
WHERE ${MATCHES} AND ($11::int8 IS NULL OR ${keyset})
ORDER BY ${order} LIMIT $10::int4 + 1`;
}

// Settled: nobody can still commit a job with a lower number, because every transaction that runs now began well after
// this row was written. A page in ascending order ends with such a row, or its cursor would pass by a late commit.
const PAGES = {
  CREATED_DESC: statement('search_newest', pageText({ keyset: 'j.seq < $11', order: 'j.seq DESC', settled: 'true' })),
  CREATED_ASC: statement(
    'search_oldest',
    pageText({ keyset: 'j.seq > $11', order: 'j.seq', settled: 'j.created_at < $12::timestamptz' }),
  ),
  UPDATED_DESC: statement(
    'search_changed',
    pageText({
      keyset: `(j.updated_at, j.seq) < (timestamptz 'epoch' + $12::int8 * interval '1 microsecond', $11)`,
      order: 'j.updated_at DESC, j.seq DESC',
      settled: 'true',
    }),
  ),
} as const;

// Beyond the exact count: as many as the newest 10 001 matches are dense, over all the org's jobs.
const COUNT = statement(
  'count_found',
  `WITH found AS MATERIALIZED (
     SELECT j.seq FROM millrace.jobs j WHERE ${MATCHES} ORDER BY j.seq DESC LIMIT ${EXACT_COUNT} + 1
   )
   SELECT count(*)::int8 AS found, min(found.seq) AS lowest_found,
     (SELECT min(a.seq) FROM millrace.jobs a WHERE a.org_id = $1::uuid) AS lowest,
     (SELECT max(a.seq) FROM millrace.jobs a WHERE a.org_id = $1::uuid) AS highest
   FROM found`,
);

// A statement of one of our pools draws its job numbers within its 5 s timeout.
const HORIZON = statement(
  'search_horizon',
  `SELECT millrace.clock() - (now() - least(min(xact_start), now())) - interval '5 seconds' AS settled_before
   FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`,
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

function filterValues(orgId: string, filter: JobFilter): unknown[] {
  return [
    orgId,
    filter.types ?? null,
    filter.states ?? null,
    filter.priorities?.map(priorityNumber) ?? null,
    filter.tags === undefined ? null : JSON.stringify(filter.tags),
    filter.createdAfter ?? null,
    filter.createdBefore ?? null,
    filter.updatedAfter ?? null,
    filter.ids ?? null,
  ];
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
