import type { Engine } from '../../engine/engine.ts';
import {
  type FoundJobs,
  type JobFilter,
  type SearchPage,
  searchJobs as searchInLedger,
  searchJobsWithPayload,
} from '../../ledger/search/search-jobs.ts';
import { checkSearch } from './check-search.ts';
import { type JobView, toView } from './read-job.ts';

export type { FoundJobs, JobFilter, SearchPage };

export type SearchParams = { orgId: string; filter?: JobFilter; page?: SearchPage };

/** Jobs that match every filter given, a page at a time, without their payloads. */
export async function searchJobs(engine: Engine, { orgId, filter = {}, page }: SearchParams): Promise<FoundJobs> {
  checkSearch(filter, page?.order);
  return searchInLedger(engine.database.searching, orgId, filter, page);
}

/** The same with payloads. */
export async function searchJobViews(engine: Engine, params: SearchParams): Promise<FoundJobs<JobView>> {
  const { orgId, filter = {}, page } = params;
  checkSearch(filter, page?.order);
  const found = await searchJobsWithPayload(engine.database.searching, orgId, filter, page);
  return { ...found, jobs: found.jobs.map(toView) };
}
