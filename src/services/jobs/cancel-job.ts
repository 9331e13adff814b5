import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import type { JobState } from '../../core/states.ts';
import type { Engine } from '../../engine/engine.ts';
import type { CancelledJob } from '../../ledger/jobs/cancel-jobs.ts';
import { type FoundJobs, type JobFilter, type SearchPage, searchJobs } from '../../ledger/search/search-jobs.ts';
import { checkSearch } from './check-search.ts';

export type CancellationResult = {
  jobId: string;
  status: 'CANCELLED' | 'ALREADY_COMPLETE' | 'NOT_FOUND' | 'CANCEL_REQUESTED';
  previousState: JobState | null;
  message: string;
};

type HowToCancel = { orgId: string; reason: string | null; force: boolean; actor: string | null };

export type CancelParams = HowToCancel & { id: string };

const WORDS: Record<CancelledJob['kind'], { status: CancellationResult['status']; message: string }> = {
  cancelled: { status: 'CANCELLED', message: 'The job is cancelled.' },
  requested: { status: 'CANCEL_REQUESTED', message: 'The job is running and was asked to stop.' },
  retry_dropped: { status: 'CANCELLED', message: 'The job had failed; the attempt it waited for is cancelled.' },
  already_final: { status: 'ALREADY_COMPLETE', message: 'The job had ended before.' },
  not_found: { status: 'NOT_FOUND', message: 'The job does not exist.' },
};

/** Cancels a job at once if no worker runs it. Otherwise asks its handler to stop. */
export async function cancelJob(engine: Engine, params: CancelParams): Promise<CancellationResult> {
  const { id } = params;
  if (!isUuid(id)) return toResult({ id, kind: 'not_found', previousState: null });
  const cancelled = await engine.canceller.cancel(params);
  tell(engine, [cancelled]);
  return toResult(cancelled);
}

export type BatchCancellationResult = {
  requested: number;
  cancelled: number;
  skipped: number;
  failed: number;
  errors: { jobId: string; code: string; message: string }[];
  dryRun: boolean;
};

/** Either the jobs with these ids, or all that match the filter. If the page has a limit, only that page of them. */
export type CancelManyParams = HowToCancel & {
  ids?: readonly string[];
  filter?: JobFilter;
  page?: SearchPage;
  dryRun: boolean;
};

const PAGE = 500;
const FINAL: readonly JobState[] = ['completed', 'failed', 'dead_letter', 'cancelled'];

/** Cancels the jobs with the given ids, or all that match a filter. A dry run only counts what would happen. */
export async function cancelMany(engine: Engine, params: CancelManyParams): Promise<BatchCancellationResult> {
  if ((params.ids === undefined) === (params.filter === undefined))
    throw refusal('filter', 'name the jobs to cancel either by their ids or by a filter');
  if (params.page?.cursor != null && params.page.limit === undefined)
    throw refusal('limit', 'a cursor needs a limit: only one page is then cancelled');
  checkSearch(params.filter ?? {}, params.page?.order);
  const total: BatchCancellationResult = {
    requested: 0,
    cancelled: 0,
    skipped: 0,
    failed: 0,
    errors: [],
    dryRun: params.dryRun,
  };
  for await (const ids of pages(engine, params)) {
    const results = params.dryRun
      ? await preview(engine, ids, params.orgId)
      : await cancelIds(engine, { ...params, ids });
    for (const result of results) count(total, toResult(result));
  }
  return total;
}

async function* pages(engine: Engine, { orgId, ids, filter, page: asked }: CancelManyParams): AsyncGenerator<string[]> {
  if (ids !== undefined) {
    const unique = [...new Set(ids)];
    for (let start = 0; start < unique.length; start += PAGE) yield unique.slice(start, start + PAGE);
    return;
  }
  if (asked?.limit !== undefined) {
    const { jobs } = await searchJobs(engine.database.api, orgId, filter, { ...asked, total: false });
    const found = jobs.map((job) => job.id);
    for (let start = 0; start < found.length; start += PAGE) yield found.slice(start, start + PAGE);
    return;
  }
  let cursor: string | null = null;
  do {
    const page: FoundJobs = await searchJobs(engine.database.api, orgId, filter ?? {}, {
      cursor,
      limit: PAGE,
      order: 'CREATED_DESC',
      total: false,
    });
    if (page.jobs.length > 0) yield page.jobs.map((job) => job.id);
    cursor = page.nextCursor;
  } while (cursor !== null);
}

/** One result per id, in the order given. A string that is not an id names no job. */
export async function cancelIds(
  engine: Engine,
  { ids, orgId, reason, actor, force }: HowToCancel & { ids: readonly string[] },
): Promise<CancelledJob[]> {
  const asked = { orgId, ids: ids.filter(isUuid), reason, actor, force };
  const results = await engine.canceller.cancelMany(asked);
  tell(engine, results);
  const found = new Map(results.map((result) => [result.id, result]));
  return ids.map((id) => found.get(id) ?? { id, kind: 'not_found', previousState: null });
}

function tell(engine: Engine, results: readonly CancelledJob[]): void {
  // A running job may have been cancelled without its handler, which must then stop.
  if (
    results.some(
      ({ kind, previousState }) => kind === 'requested' || (kind === 'cancelled' && previousState === 'running'),
    )
  )
    engine.hint('cancel');
  if (results.some(({ kind }) => kind === 'cancelled' || kind === 'retry_dropped')) engine.hint('releases');
}

async function preview(engine: Engine, ids: readonly string[], orgId: string): Promise<CancelledJob[]> {
  const page = { limit: PAGE, total: false };
  const { jobs } = await searchJobs(engine.database.api, orgId, { ids: ids.filter(isUuid) }, page);
  const found = new Map(jobs.map((job) => [job.id, job.state]));
  return ids.map((id) => {
    const state = found.get(id.toLowerCase());
    if (state === undefined) return { id, kind: 'not_found', previousState: null };
    if (FINAL.includes(state)) return { id, kind: 'already_final', previousState: state };
    return { id, kind: state === 'running' ? 'requested' : 'cancelled', previousState: state };
  });
}

function count(total: BatchCancellationResult, result: CancellationResult): void {
  total.requested++;
  if (result.status === 'ALREADY_COMPLETE') total.skipped++;
  else if (result.status !== 'NOT_FOUND') total.cancelled++;
  else {
    total.failed++;
    total.errors.push({ jobId: result.jobId, code: 'NOT_FOUND', message: result.message });
  }
}

const refusal = (field: string, message: string): AppError =>
  new AppError('INVALID_REQUEST', { message, details: [{ field, code: 'CONFLICTING_MEMBERS', message }] });

function toResult({ id, kind, previousState }: CancelledJob): CancellationResult {
  return { jobId: id, previousState, ...WORDS[kind] };
}
