import type { Engine } from '../../engine/engine.ts';
import {
  type FoundJobs,
  type JobFilter,
  type SearchPage,
  searchJobs as searchInLedger,
} from '../../ledger/search/search-jobs.ts';
import { checkSearch } from './check-search.ts';

export type { FoundJobs, JobFilter, SearchPage };

export type SearchParams = { orgId: string; filter?: JobFilter; page?: SearchPage };

/** Jobs that match every filter given, a page at a time. */
export async function searchJobs(engine: Engine, { orgId, filter = {}, page }: SearchParams): Promise<FoundJobs> {
  checkSearch(filter, page?.order);
  return searchInLedger(engine.database.searching, orgId, filter, page);
}
