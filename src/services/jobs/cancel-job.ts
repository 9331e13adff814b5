import { type AppError, invalidRequest } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { Issues } from '../../core/issues.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import { withinMember } from '../../core/member-issues.ts';
import type { Owner } from '../../core/owner.ts';
import { isTerminal, type JobState } from '../../core/states.ts';
import { FIELD_LIMITS, readText } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import type { CancelledJob } from '../../ledger/jobs/cancel-jobs.ts';
import { countMatching } from '../../ledger/search/count-matching.ts';
import { type FoundJobs, type JobFilter, type SearchPage, searchJobs } from '../../ledger/search/search-jobs.ts';
import { checkSearch, hasNoCondition } from './search-jobs.ts';

/** The result of a cancellation. */
export type CancellationResult = {
  /** The id of the job. */
  jobId: string;
  /** CANCEL_REQUESTED: the job runs, and its handler was asked to stop. */
  status: 'CANCELLED' | 'ALREADY_COMPLETE' | 'NOT_FOUND' | 'CANCEL_REQUESTED';
  /** The state before the call. Null if the job does not exist. */
  previousState: JobState | null;
  /** The status in a sentence. */
  message: string;
};

type HowToCancel = Owner & { reason: string | null; force: boolean; actor: string | null; requestId?: string | null };

export type CancelParams = HowToCancel & { id: string };

const WORDS: Record<CancelledJob['kind'], { status: CancellationResult['status']; message: string }> = {
  cancelled: { status: 'CANCELLED', message: 'The job is cancelled.' },
  requested: { status: 'CANCEL_REQUESTED', message: 'The job is running and was asked to stop.' },
  retry_dropped: { status: 'CANCELLED', message: 'The job had failed. Its next attempt is cancelled.' },
  already_final: { status: 'ALREADY_COMPLETE', message: 'The job had already ended.' },
  not_found: { status: 'NOT_FOUND', message: 'The job does not exist.' },
};

/** Cancels a job immediately if no worker runs it. Otherwise asks its handler to stop. */
export async function cancelJob(engine: Engine, params: CancelParams): Promise<CancellationResult> {
  const { id } = params;
  checkReason(params.reason);
  if (!isUuid(id)) return toResult({ id, kind: 'not_found', previousState: null });
  const cancelled = await engine.canceller.cancel(params);
  notify(engine, [cancelled]);
  return toResult(cancelled);
}

/** The number of jobs with each result. */
export type BatchCancellationResult = {
  /** The jobs that were named or found. */
  requested: number;
  /** The jobs that are cancelled or were asked to stop. */
  cancelled: number;
  /** The jobs that had already ended. */
  skipped: number;
  /** The jobs that could not be cancelled. */
  failed: number;
  /** The reasons of those that failed. */
  errors: { jobId: string; code: string; message: string }[];
  /** True if no job was changed. */
  dryRun: boolean;
};

/** The jobs to cancel. A filter must have a condition: `all` stands for all jobs of the owner. */
export type CancelTarget =
  | {
      /** The ids of the jobs. */
      ids: readonly string[];
    }
  | {
      /** What the jobs have in common. */
      filter: JobFilter;
    }
  | {
      /** All jobs of the owner. */
      all: true;
    };

type GivenTarget = { ids?: readonly string[]; filter?: JobFilter; all?: true };

const TARGET = membersOf<GivenTarget>({ ids: true, filter: true, all: true });

/** If the page has a limit, only that page of matching jobs is cancelled. */
export type CancelManyParams = HowToCancel & {
  target: GivenTarget;
  page?: SearchPage;
  dryRun: boolean;
  /** Once it is aborted, no further job is cancelled. */
  signal?: AbortSignal;
  /** Called after each page with what is done so far. */
  onProgress?: (total: BatchCancellationResult) => void;
};

const PAGE = 500;

/** Cancels jobs by id or by filter, and returns the number of jobs with each result. A dry run changes no job. */
export async function cancelMany(engine: Engine, params: CancelManyParams): Promise<BatchCancellationResult> {
  const { target, page, ...how } = params;
  checkReason(how.reason);
  const asked = { ...how, page, ...readTarget(target, page) };
  if (page?.cursor != null && page.limit === undefined)
    throw refusal('limit', 'limit is required with a cursor, because one page of jobs is cancelled');
  if (asked.ids !== undefined) return cancelPages(engine, asked);
  return engine.canceller.filterTurns.run(asked.orgId, () => cancelMatching(engine, asked), asked.signal);
}

type Chosen = { ids: readonly string[]; filter?: undefined } | { ids?: undefined; filter: JobFilter };
type Asked = Omit<CancelManyParams, 'target'> & Chosen;

/** A filter without a condition is most often a mistake, such as a variable that is undefined, and would cancel every job. */
function readTarget(target: GivenTarget, page: SearchPage | undefined): Chosen {
  checkMembers(target, TARGET, 'target');
  const { ids, filter, all } = target;
  if ([ids, filter, all].filter((given) => given !== undefined).length !== 1)
    throw refusal('filter', 'give one of these: the ids of the jobs to cancel, a filter, or all: true');
  if (ids !== undefined) return { ids: readIds(ids) };
  if (all !== undefined && (all as unknown) !== true) throw refusal('all', 'all must be true, or left out');
  if (filter === undefined) return { filter: {} };
  withinMember('filter', () => checkSearch(filter));
  checkSearch({}, page);
  if (page?.limit === undefined && hasNoCondition(filter))
    throw refusal('filter', 'the filter has no condition and would cancel every job: add one, or give all: true instead');
  return { filter };
}

function checkReason(reason: string | null): void {
  if (reason === null || reason === '') return;
  const issues = new Issues();
  readText(reason, { field: 'reason', max: FIELD_LIMITS.reason }, issues);
  issues.throwIfAny();
}

function readIds(ids: readonly string[]): readonly string[] {
  if (Array.isArray(ids)) return ids;
  throw refusal('ids', 'ids must be a list of job ids');
}

/** A dry run of the whole filter counts in the database. */
async function cancelMatching(engine: Engine, params: Asked): Promise<BatchCancellationResult> {
  const { orgId, filter = {}, page, dryRun, signal } = params;
  if (!dryRun || page?.limit !== undefined) return cancelPages(engine, params);
  const { matching, ended } = await engine.searches.run(orgId, (db) => countMatching(db, params, filter), signal);
  return { requested: matching, cancelled: matching - ended, skipped: ended, failed: 0, errors: [], dryRun };
}

async function cancelPages(engine: Engine, params: Asked): Promise<BatchCancellationResult> {
  const total: BatchCancellationResult = {
    requested: 0,
    cancelled: 0,
    skipped: 0,
    failed: 0,
    errors: [],
    dryRun: params.dryRun,
  };
  for await (const ids of pages(engine, params)) {
    params.signal?.throwIfAborted();
    const results = params.dryRun ? await preview(engine, ids, params) : await cancelIds(engine, { ...params, ids });
    for (const result of results) count(total, toResult(result));
    params.onProgress?.(total);
  }
  return total;
}

async function* pages(engine: Engine, params: Asked): AsyncGenerator<string[]> {
  const { orgId, ids, filter = {}, page: asked, signal } = params;
  const search = (page: SearchPage) =>
    engine.searches.run(orgId, (db) => searchJobs(db, params, filter, { ...page, total: false }), signal);
  if (ids !== undefined) return yield* slices([...new Set(ids)]);
  if (asked?.limit !== undefined) {
    const { jobs } = await search(asked);
    return yield* slices(jobs.map((job) => job.id));
  }
  let cursor: string | null = null;
  do {
    const page: FoundJobs = await search({ cursor, limit: PAGE, order: 'CREATED_DESC' });
    if (page.jobs.length > 0) yield page.jobs.map((job) => job.id);
    cursor = page.nextCursor;
  } while (cursor !== null);
}

function* slices(ids: readonly string[]): Generator<string[]> {
  for (let start = 0; start < ids.length; start += PAGE) yield ids.slice(start, start + PAGE);
}

/** Returns one result per id, in order. A string that is not a valid id is reported as not found. */
export async function cancelIds(
  engine: Engine,
  { ids, orgId, projectId, reason, actor, force, requestId = null }: HowToCancel & { ids: readonly string[] },
): Promise<CancelledJob[]> {
  const asked = { orgId, projectId, ids: ids.filter(isUuid), reason, actor, force, requestId };
  const results = await engine.canceller.cancelMany(asked);
  notify(engine, results);
  const found = new Map(results.map((result) => [result.id, result]));
  return ids.map((id) => found.get(id) ?? { id, kind: 'not_found', previousState: null });
}

/** A job that was cancelled while it was running still has a handler, which must stop. */
function notify(engine: Engine, results: readonly CancelledJob[]): void {
  const mustStop = ({ kind, previousState }: CancelledJob) => kind === 'requested' || (kind === 'cancelled' && previousState === 'running');
  if (results.some(mustStop)) engine.hint('cancel');
  if (results.some(({ kind }) => kind === 'cancelled' || kind === 'retry_dropped')) engine.hint('releases');
}

async function preview(engine: Engine, ids: readonly string[], params: Asked): Promise<CancelledJob[]> {
  const page = { limit: PAGE, total: false };
  const filter = { ids: ids.filter(isUuid) };
  const { jobs } = await engine.searches.run(params.orgId, (db) => searchJobs(db, params, filter, page), params.signal);
  const found = new Map(jobs.map((job) => [job.id, job.state]));
  return ids.map((id) => {
    const state = found.get(id.toLowerCase());
    if (state === undefined) return { id, kind: 'not_found', previousState: null };
    if (isTerminal(state)) return { id, kind: 'already_final', previousState: state };
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

const refusal = (field: string, message: string): AppError => invalidRequest({ field, code: 'CONFLICTING_MEMBERS', message });

function toResult({ id, kind, previousState }: CancelledJob): CancellationResult {
  return { jobId: id, previousState, ...WORDS[kind] };
}
