import { invalidRequest } from '../../core/errors.ts';
import type { Job, JobSummary } from '../../core/job.ts';
import type { Owner } from '../../core/owner.ts';
import { type Seal, sealOf } from '../driver/seal.ts';
import { type Queryable, runNamed } from '../driver/statement.ts';
import { toJob, toJobWithPayload } from '../reads/job-row.ts';
import { fewJobs } from './few-jobs.ts';
import { filterParams, type JobFilter, type OwnedFilter } from './job-filter.ts';
import { NO_BOUNDS, type SearchBounds, searchBounds } from './search-bounds.ts';
import { readCursor, type SearchOrder, type SearchPosition, type SearchScope, writeCursor } from './search-cursor.ts';
import { hasEnded, settledJobs } from './search-settling.ts';
import { COUNTS, PAGES, type PageParams, type PageRow, type Source } from './search-statements.ts';

export type { JobFilter };

/** Which part of the found jobs to return. */
export type SearchPage = {
  /** The cursor of the page before. Default: the first page. */
  cursor?: string | null;
  /** The number of jobs on the page. */
  limit?: number;
  /** The order of the jobs. */
  order?: SearchOrder;
  /** The filter of a caller that filters more narrowly than the ledger. The cursor is bound to it. */
  cursorFilter?: object;
  /** False if the caller does not show the total. Counting costs as much as the page. */
  total?: boolean;
};

export type FoundJobs<Found = JobSummary> = {
  jobs: Found[];
  totalCount: number;
  totalIsEstimate: boolean;
  nextCursor: string | null;
  hasMore: boolean;
};

const MAX_LIMIT = 1_000;
const DEFAULT_LIMIT = 100;
/** How many jobs a page looks at before it is returned short, with `hasMore`. */
const BUDGET = 8_000;
/** If many jobs match, a first look with this budget fills the page. */
const firstBudget = (limit: number, order: SearchOrder) => Math.min(10 * limit + 1_000, BUDGET / 2) * (order === 'UPDATED_DESC' ? 2 : 1);
/** How many jobs a count looks at. Jobs of a list lie far apart in the table, so each costs more. */
const COUNT_BUDGET = { all: 5_000, few: 1_000 };
/** The longest list that is used. In the order of change, the whole list is looked up and sorted. */
const MAX_FEW = { CREATED_DESC: 10_000, CREATED_ASC: 10_000, UPDATED_DESC: 5_000 };
/** How many jobs of a list a page looks up. In the order of change this covers the whole list. */
const LIST_BUDGET = 5_001;

const NOTHING = { jobs: [], totalCount: 0, totalIsEstimate: false, nextCursor: null, hasMore: false };

/** `few`: the list of jobs that the page was read from, if it was one. */
type Looked = { rows: PageRow[]; few: string | null };

type Search = {
  db: Queryable;
  seal: Seal;
  filter: OwnedFilter;
  order: SearchOrder;
  limit: number;
  after: SearchPosition | null;
  scope: SearchScope;
  bounds: SearchBounds;
  payload: boolean;
};

/**
 * Filters are combined with AND. An empty filter finds every job of the owner. A page that would cost too much to fill is returned
 * short or empty, with `hasMore` and a cursor.
 */
export function searchJobs(db: Queryable, owner: Owner, filter: JobFilter = {}, page: SearchPage = {}): Promise<FoundJobs> {
  return find({ db, owner, filter, payload: false }, page);
}

export function searchJobsWithPayload(db: Queryable, owner: Owner, filter: JobFilter, page: SearchPage = {}): Promise<FoundJobs<Job>> {
  return find({ db, owner, filter, payload: true }, page) as Promise<FoundJobs<Job>>;
}

type Wanted = Pick<Search, 'db' | 'payload'> & { owner: Owner; filter: JobFilter };

async function find({ db, owner, filter: given, payload }: Wanted, page: SearchPage): Promise<FoundJobs> {
  const { orgId, projectId } = owner;
  const filter: OwnedFilter = projectId === null ? given : { ...given, projectId };
  const { cursor, limit = DEFAULT_LIMIT, order = 'CREATED_DESC', cursorFilter } = page;
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    throw invalidRequest({
      field: 'limit',
      code: 'OUT_OF_RANGE',
      message: `limit must be an integer from 1 to ${MAX_LIMIT}`,
    });
  const scope: SearchScope = { orgId, filter: { ledger: filter, reader: cursorFilter }, order };
  const seal = await sealOf(db);
  const after = cursor == null ? null : readCursor(seal, scope, cursor);
  const bounds = await searchBounds(db, orgId, { filter, cursorUs: after?.updatedAtUs ?? null });
  if (bounds.low + 1 >= bounds.high) return NOTHING;
  const search: Search = { db, seal, filter, order, limit, after, scope, bounds, payload };
  const { rows, few } = await lookSettled(search);
  const found = cut(rows, search);
  const isAll = !found.hasMore && after === null;
  if (isAll || page.total === false) return { ...found, totalCount: found.jobs.length, totalIsEstimate: !isAll };
  const known = rows[0]?.total ?? null;
  const total = known === null ? await totalOf(search, few) : { totalCount: known, totalIsEstimate: false };
  return { ...found, ...total, totalCount: Math.max(total.totalCount, found.jobs.length) };
}

/**
 * In ascending order a page cannot end with a job while another transaction may still commit one with a lower number. In that case
 * this waits a moment for the transactions that run now. After them, no job with a lower number can appear.
 */
async function lookSettled(search: Search): Promise<Looked> {
  const first = await look(search);
  const seen = edgeOf(first.rows, search);
  if (seen === null || !(await hasEnded(search.db))) return first;
  const { rows, few } = await look(search);
  const settled = rows.map((row) => ({
    ...row,
    is_settled: row.is_settled || Number(row.seq) <= seen,
    is_place_settled: row.is_place_settled || (row.place ?? 0) <= seen,
  }));
  return { rows: settled, few };
}

/** The highest job that a page in ascending order has seen, or null if the page can end there. */
function edgeOf(rows: readonly PageRow[], { order, limit }: Search): number | null {
  const found = rows.filter((row) => row.id !== null);
  const last = found[Math.min(found.length, limit) - 1];
  const place = rows[0]?.place ?? null;
  const isOpen = last?.is_settled === false && (place !== null || found.length > limit);
  const isPlaceOpen = place !== null && rows[0]?.is_place_settled === false;
  if (order !== 'CREATED_ASC' || !(isOpen || isPlaceOpen)) return null;
  return Math.max(Number(last?.seq ?? 0), place ?? 0);
}

/** Where many jobs match, a short walk fills the page. Otherwise one filter may name few jobs; if none does, the walk is longer. */
async function look(search: Search): Promise<Looked> {
  const { db, filter, limit, order, scope } = search;
  if (!isSparse(search)) {
    const rows = await read(search, { source: 'all', budget: firstBudget(limit, order) });
    if (rows.length > limit || rows[0]?.place == null) return { rows, few: null };
  }
  const few = await fewJobs(db, { orgId: scope.orgId, filter, max: MAX_FEW[order] });
  const where = few === null ? { source: 'all' as const, budget: BUDGET } : { source: 'few' as const, seqs: few };
  return { rows: await read(search, where), few };
}

/** Few jobs match for sure, or probably: most changes lead to other states than the ones that do not last or go wrong. */
const isSparse = ({ filter, order }: Search): boolean =>
  filter.ids !== undefined || (order === 'UPDATED_DESC' && filter.states?.includes('completed') === false);

type Where = { source: Source; budget?: number; seqs?: string };

async function read(search: Search, { source, budget = LIST_BUDGET, seqs = '{}' }: Where): Promise<PageRow[]> {
  const { db, order } = search;
  // This is read before the page. A job that is committed between the two reads is in the page.
  const settled = order === 'CREATED_ASC' ? await settledJobs(db) : { before: null, seq: 0 };
  const params = { ...paramsOf(search, budget), seqs, settledSeq: settled.seq, settledBefore: settled.before };
  return runNamed(db, PAGES[order][source], params);
}

function paramsOf({ filter, order, limit, after, scope, bounds, payload }: Search, budget: number): PageParams {
  const seq = order === 'UPDATED_DESC' ? null : (after?.seq ?? null);
  return {
    ...filterParams(filter),
    orgId: scope.orgId,
    limit,
    budget,
    payload,
    low: order === 'CREATED_ASC' ? Math.max(bounds.low, seq ?? 0) : bounds.low,
    high: order === 'CREATED_DESC' ? Math.min(bounds.high, seq ?? NO_BOUNDS.high) : bounds.high,
    seqs: '{}',
    sinceUs: Math.max(filter.updatedAfter?.getTime() ?? 0, filter.createdAfter?.getTime() ?? 0) * 1_000,
    cursorUs: after?.updatedAtUs ?? NO_BOUNDS.changedUs,
    cursorSeq: after?.seq ?? 0,
    untilUs: Math.min(after?.updatedAtUs ?? NO_BOUNDS.changedUs, bounds.changedUs),
    settledSeq: 0,
    settledBefore: null,
  };
}

/** The total is exact if all jobs were looked at. Otherwise it assumes that older jobs match as often as the newest ones. */
async function totalOf(search: Search, few: string | null): Promise<Pick<FoundJobs, 'totalCount' | 'totalIsEstimate'>> {
  const source = few === null ? 'all' : 'few';
  const params = paramsOf({ ...search, order: 'CREATED_DESC', after: null }, COUNT_BUDGET[source]);
  const [row] = await runNamed(search.db, COUNTS[source], { ...params, seqs: few ?? '{}' });
  if (row === undefined || row.place === null) return { totalCount: row?.found ?? 0, totalIsEstimate: false };
  const share = (row.highest - row.lowest + 1) / (row.highest - row.place + 1);
  return { totalCount: Math.round(row.found * share), totalIsEstimate: true };
}

/** The last page shows every job found. An earlier page ends where the next one can safely begin. */
function cut(rows: PageRow[], search: Search): Pick<FoundJobs, 'jobs' | 'nextCursor' | 'hasMore'> {
  const { order, limit, after, scope, seal, payload } = search;
  const found = rows.filter((row) => row.id !== null);
  const place = rows[0]?.place ?? null;
  const shown = (kept: PageRow[]) => kept.map((row) => (payload ? toJobWithPayload(row) : toJob(row)));
  if (found.length <= limit && place === null) return { jobs: shown(found), nextCursor: null, hasMore: false };
  let kept = found.slice(0, limit);
  if (order === 'CREATED_ASC') kept = kept.slice(0, kept.findLastIndex((row) => row.is_settled) + 1);
  const isWhole = found.length <= limit && kept.length === found.length;
  const last = kept.at(-1);
  let position = last === undefined ? (after ?? startOf(order)) : positionOf(last, order);
  // The page shows every match up to the frontier, so the next page begins there.
  if (isWhole && place !== null && rows[0]?.is_place_settled) position = positionAt(place, order);
  return { jobs: shown(kept), nextCursor: writeCursor(seal, scope, position), hasMore: true };
}

const startOf = (order: SearchOrder): SearchPosition =>
  order === 'UPDATED_DESC'
    ? { seq: 0, updatedAtUs: NO_BOUNDS.changedUs }
    : { seq: order === 'CREATED_ASC' ? 0 : NO_BOUNDS.high, updatedAtUs: null };

const positionOf = (row: PageRow, order: SearchOrder): SearchPosition => ({
  seq: Number(row.seq),
  updatedAtUs: order === 'UPDATED_DESC' ? Number(row.updated_at_us) : null,
});

/** The page looked at the jobs at this place, so the next page begins after them. */
const positionAt = (place: number, order: SearchOrder): SearchPosition =>
  order === 'UPDATED_DESC' ? { seq: 0, updatedAtUs: place } : { seq: place, updatedAtUs: null };
