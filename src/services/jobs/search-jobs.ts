import { isStorable } from '../../core/bounded-text.ts';
import { isUuid } from '../../core/ids.ts';
import { Issues } from '../../core/issues.ts';
import { isRecord, membersOf, refuseUnknown } from '../../core/known-members.ts';
import type { Owner } from '../../core/owner.ts';
import { isPlainObject } from '../../core/plain-json.ts';
import { PRIORITIES } from '../../core/priority.ts';
import { JOB_STATES } from '../../core/states.ts';
import { readWord } from '../../core/submission-fields.ts';
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
  checkSearch(filter, page);
  return engine.searches.run(orgId, (db) => searchInLedger(db, params, filter, page), signal);
}

/** Like `searchJobs`, but with the payloads. */
export async function searchJobViews(engine: Engine, params: SearchParams): Promise<FoundJobs<JobView>> {
  const { orgId, filter = {}, page, signal } = params;
  checkSearch(filter, page);
  const found = await engine.searches.run(orgId, (db) => searchJobsWithPayload(db, params, filter, page), signal);
  return { ...found, jobs: found.jobs.map(toView) };
}

const FILTER = membersOf<JobFilter>({
  types: true,
  states: true,
  priorities: true,
  tags: true,
  createdAfter: true,
  createdBefore: true,
  updatedAfter: true,
  ids: true,
});

const PAGE = membersOf<SearchPage>({ cursor: true, limit: true, order: true, total: true, cursorFilter: true });

/**
 * Refuses unknown members, states, priorities and orders, which a caller in plain JavaScript may send. Reserved names are allowed, because
 * older jobs may have them. Text is refused only if PostgreSQL cannot store it.
 */
export function checkSearch(filter: JobFilter, page: SearchPage = {}): void {
  const issues = new Issues();
  if (!isRecord(filter)) issues.add('filter', 'INVALID_TYPE', 'must be an object');
  if (!isRecord(page)) issues.add('page', 'INVALID_TYPE', 'must be an object');
  issues.throwIfAny();
  refuseUnknown(filter, FILTER, issues);
  refuseUnknown(page, PAGE, issues);
  checkLists(filter, issues);
  checkTags(filter.tags, issues);
  for (const name of ['createdAfter', 'createdBefore', 'updatedAfter'] as const) {
    const at: unknown = filter[name];
    if (at != null && !(at instanceof Date && !Number.isNaN(at.getTime()))) issues.add(name, 'INVALID_TYPE', 'must be a valid Date');
  }
  if (page.cursor != null && typeof page.cursor !== 'string') issues.add('cursor', 'INVALID_TYPE', 'must be a string');
  if (page.order !== undefined) readWord(page.order, { field: 'order', words: SEARCH_ORDERS }, issues);
  issues.throwIfAny();
}

/** Whether the filter matches every job. A member that is undefined or null counts as absent. */
export function hasNoCondition({ tags, ...others }: JobFilter): boolean {
  return Object.keys(tags ?? {}).length === 0 && Object.values(others).every((value) => value == null);
}

function checkLists({ types, states, priorities, ids }: JobFilter, issues: Issues): void {
  for (const [name, list] of Object.entries({ types, states, priorities, ids }))
    if (list != null && !Array.isArray(list)) issues.add(name, 'INVALID_TYPE', 'must be a list');
  issues.throwIfAny();
  for (const [index, type] of (types ?? []).entries()) checkStorable(type, `types[${index}]`, issues);
  for (const state of states ?? []) readWord(state, { field: 'states', words: JOB_STATES }, issues);
  for (const priority of priorities ?? []) readWord(priority, { field: 'priorities', words: PRIORITIES }, issues);
  for (const [index, id] of (ids ?? []).entries()) if (!isUuid(id)) issues.add(`ids[${index}]`, 'INVALID_ID', 'must be a job id');
}

function checkTags(tags: JobFilter['tags'], issues: Issues): void {
  if (tags == null) return;
  if (!isRecord(tags) || !isPlainObject(tags)) issues.add('tags', 'INVALID_TYPE', 'must be a map of strings');
  else
    for (const [name, value] of Object.entries(tags)) {
      checkStorable(name, 'tags', issues);
      checkStorable(value, 'tags', issues);
    }
}

function checkStorable(text: unknown, field: string, issues: Issues): void {
  if (typeof text !== 'string') issues.add(field, 'INVALID_TYPE', 'must be a string');
  else if (!isStorable(text)) issues.add(field, 'INVALID_TEXT', 'must be valid Unicode without the NUL character');
}
