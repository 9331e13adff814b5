import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import type { Job } from '../../core/job.ts';
import { invalidCursor } from '../../ledger/driver/page-cursor.ts';
import { getJobs } from '../../ledger/reads/get-job.ts';
import { type SearchPage, searchJobsWithPayload } from '../../ledger/search/search-jobs.ts';
import { type Caller, type ExecutionContext, ownerOf } from './context.ts';
import { type ExecutionFilter, matches, toJobFilter } from './execution-filter.ts';
import { type ExecutionView, viewOf } from './read-execution.ts';

export const EXECUTION_ORDERS = ['created', 'updated'] as const;

export type ExecutionPage = {
  readonly cursor?: string;
  readonly limit?: number;
  /** Newest first, by the time of submission or of the last state change. */
  readonly order?: (typeof EXECUTION_ORDERS)[number];
  /** Once it is aborted, no further statement is sent. */
  readonly signal?: AbortSignal;
};

const ORDERS = { created: 'CREATED_DESC', updated: 'UPDATED_DESC' } as const;
const DEFAULT_LIMIT = 100;
/** How many searches one page may take. If few of the jobs found match, the page is returned short, with `hasMore`. */
const MAX_LOOKS = 5;

export type FoundExecution = { readonly job: Job; readonly view: ExecutionView };

export type FoundExecutions = { jobs: FoundExecution[]; nextCursor: string | null; hasMore: boolean };

/** Returns a page of the jobs of one client that match every filter. */
export async function findExecutions(
  c: ExecutionContext,
  caller: Caller,
  filter: ExecutionFilter,
  { cursor, limit = DEFAULT_LIMIT, order = 'created', signal }: ExecutionPage,
): Promise<FoundExecutions> {
  const jobs: FoundExecution[] = [];
  const jobFilter = toJobFilter(filter);
  // These lists have one page, so a cursor must belong to another list.
  if ((filter.ids !== undefined || jobFilter === null) && cursor !== undefined) throw invalidCursor();
  if (filter.ids !== undefined) return named(c, caller, { ids: filter.ids, filter, order });
  if (jobFilter === null) return { jobs, nextCursor: null, hasMore: false };
  let nextCursor: string | null = cursor ?? null;
  for (let look = 1; ; look++) {
    const page: SearchPage = {
      cursor: nextCursor,
      cursorFilter: filter,
      limit: limit - jobs.length,
      order: ORDERS[order],
      total: false,
    };
    const owner = ownerOf(caller);
    const found = await c.engine.searches.run(owner.orgId, (db) => searchJobsWithPayload(db, owner, jobFilter, page), signal);
    for (const job of found.jobs) {
      const view = viewOf(job);
      if (matches(view, filter)) jobs.push({ job, view });
    }
    nextCursor = found.nextCursor;
    if (!found.hasMore || jobs.length === limit || look === MAX_LOOKS) return { jobs, nextCursor, hasMore: found.hasMore };
  }
}

type Named = { ids: readonly string[]; filter: ExecutionFilter; order: NonNullable<ExecutionPage['order']> };

/** Reads jobs by id and applies the other filters here. */
async function named(c: ExecutionContext, caller: Caller, { ids, filter, order }: Named): Promise<FoundExecutions> {
  const owner = ownerOf(caller);
  const found = await getJobs(c.engine.database.reads.of(owner.orgId), owner, [...new Set(ids.map((id) => id.toLowerCase()))]);
  const jobs = found
    .filter(({ type }) => type === EXECUTION_TYPE)
    .map((job) => ({ job, view: viewOf(job) }))
    .filter(({ view }) => matches(view, filter))
    .sort((left, right) => NEWER[order](left.job, right.job));
  return { jobs, nextCursor: null, hasMore: false };
}

const NEWER = {
  created: (left: Job, right: Job) => right.seq - left.seq,
  updated: (left: Job, right: Job) => right.updatedAt.getTime() - left.updatedAt.getTime() || right.seq - left.seq,
} as const;
