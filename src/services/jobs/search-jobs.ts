import { isStorable } from '../../core/bounded-text.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import { PRIORITIES } from '../../core/priority.ts';
import { JOB_STATES } from '../../core/states.ts';
import { Issues, readWord } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import { SEARCH_ORDERS } from '../../ledger/search/search-cursor.ts';
import {
  type FoundJobs,
  type JobFilter,
  type SearchPage,
  searchJobs as searchInLedger,
  searchJobsWithPayload,
} from '../../ledger/search/search-jobs.ts';
import { type JobView, toView } from './read-job.ts';

export type { FoundJobs, JobFilter, SearchPage };

/** Once the signal is aborted, the search sends no further statement. */
export type SearchParams = Owner & { filter?: JobFilter; page?: SearchPage; signal?: AbortSignal };

/** Returns a page of the jobs that match every filter, without their payloads. */
export async function searchJobs(engine: Engine, params: SearchParams): Promise<FoundJobs> {
  const { orgId, filter = {}, page, signal } = params;
  checkSearch(filter, page?.order);
  return engine.searches.run(orgId, (db) => searchInLedger(db, params, filter, page), signal);
}

/** Like `searchJobs`, but with the payloads. */
export async function searchJobViews(engine: Engine, params: SearchParams): Promise<FoundJobs<JobView>> {
  const { orgId, filter = {}, page, signal } = params;
  checkSearch(filter, page?.order);
  const found = await engine.searches.run(orgId, (db) => searchJobsWithPayload(db, params, filter, page), signal);
  return { ...found, jobs: found.jobs.map(toView) };
}

/**
 * Refuses unknown states, priorities and orders, which a caller in plain JavaScript may send. Reserved names are allowed, because older
 * jobs may have them. Text is refused only if PostgreSQL cannot store it.
 */
export function checkSearch(filter: JobFilter, order: string | undefined): void {
  const { states, priorities, tags, ids, ...others } = filter;
  const issues = new Issues();
  for (const [name, values] of Object.entries(others))
    if (Array.isArray(values)) for (const [index, text] of values.entries()) checkStorable(text, `${name}[${index}]`, issues);
  for (const state of states ?? []) readWord(state, { field: 'states', words: JOB_STATES }, issues);
  for (const priority of priorities ?? []) readWord(priority, { field: 'priorities', words: PRIORITIES }, issues);
  for (const [name, value] of Object.entries(tags ?? {})) {
    checkStorable(name, 'tags', issues);
    checkStorable(value, 'tags', issues);
  }
  for (const [index, id] of (ids ?? []).entries()) if (!isUuid(id)) issues.add(`ids[${index}]`, 'INVALID_ID', 'must be a job id');
  if (order !== undefined) readWord(order, { field: 'order', words: SEARCH_ORDERS }, issues);
  issues.throwIfAny();
}

function checkStorable(text: unknown, field: string, issues: Issues): void {
  if (typeof text !== 'string') issues.add(field, 'INVALID_TYPE', 'must be a string');
  else if (!isStorable(text)) issues.add(field, 'INVALID_TEXT', 'must be valid Unicode without the NUL character');
}
