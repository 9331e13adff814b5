import { invalidRequest, isAppError, MAX_ISSUES } from '../../core/errors.ts';
import type { Owner } from '../../core/owner.ts';
import type { JobState } from '../../core/states.ts';
import type { Engine } from '../../engine/engine.ts';
import { countMatching } from '../../ledger/search/count-matching.ts';
import { type JobFilter, searchJobs } from '../../ledger/search/search-jobs.ts';
import { type RetryParams, retryJob } from './retry-job.ts';
import { checkSearch } from './search-jobs.ts';

/** The states from which a job can be retried. */
export const RETRIABLE_STATES = ['failed', 'dead_letter'] as const satisfies readonly JobState[];

export type RetryManyParams = Owner &
  Pick<RetryParams, 'resetAttempts' | 'priority' | 'delay' | 'actor'> & {
    filter: JobFilter;
    dryRun: boolean;
    /** Called after each page with what is done so far. */
    onProgress?: (total: BatchRetryResult) => void;
    signal?: AbortSignal;
  };

export type BatchRetryResult = {
  /** Failed and dead-lettered jobs that match. */
  requested: number;
  retried: number;
  /** Jobs that were retried, changed or removed by others meanwhile. */
  skipped: number;
  /** Why jobs could not be retried, at most 20 of them. They count as skipped. */
  errors: { jobId: string; message: string }[];
  dryRun: boolean;
};

const PAGE = 500;
/** Each job is one statement. More at the same time would take connections from others. */
const AT_ONCE = 4;

/** Retries all failed and dead-lettered jobs that match. A dry run counts them and changes nothing. */
export async function retryMany(engine: Engine, params: RetryManyParams): Promise<BatchRetryResult> {
  const { orgId, dryRun, signal, onProgress } = params;
  const filter = { ...params.filter, states: statesOf(params.filter) };
  checkSearch(filter, undefined);
  const total: BatchRetryResult = { requested: 0, retried: 0, skipped: 0, errors: [], dryRun };
  if (dryRun) {
    const { matching } = await engine.searches.run(orgId, (db) => countMatching(db, params, filter), signal);
    return { ...total, requested: matching, retried: matching };
  }
  for (let cursor: string | null = null; ; ) {
    const page = await engine.searches.run(orgId, (db) => searchJobs(db, params, filter, { cursor, limit: PAGE, total: false }), signal);
    const ids = page.jobs.map(({ id }) => id);
    for (let start = 0; start < ids.length; start += AT_ONCE) {
      signal?.throwIfAborted();
      await Promise.all(ids.slice(start, start + AT_ONCE).map((id) => retryOne(engine, { ...params, id }, total)));
    }
    total.requested += ids.length;
    onProgress?.(total);
    cursor = page.nextCursor;
    if (cursor === null) return total;
  }
}

async function retryOne(engine: Engine, params: RetryParams, total: BatchRetryResult): Promise<void> {
  try {
    const { status } = await retryJob(engine, params);
    total[status === 'QUEUED' ? 'retried' : 'skipped']++;
  } catch (error) {
    // The delay may be too long for the lifetime of one job and not of another.
    if (!isAppError(error, 'INVALID_REQUEST')) throw error;
    total.skipped++;
    if (total.errors.length < MAX_ISSUES) total.errors.push({ jobId: params.id, message: error.message });
  }
}

function statesOf({ states = RETRIABLE_STATES }: JobFilter): readonly JobState[] {
  const wrong = states.find((state) => !RETRIABLE_STATES.some((each) => each === state));
  if (wrong === undefined) return states;
  const message = `Jobs that are ${wrong} cannot be retried. Use the states ${RETRIABLE_STATES.join(' and ')}.`;
  throw invalidRequest({ field: 'states', code: 'INVALID_VALUE', message });
}
