import type { Job } from '../../core/job.ts';
import type { SearchOrder } from './search-cursor.ts';

export type SearchPage = {
  cursor?: string | null;
  limit?: number;
  order?: SearchOrder;
  /** The filters that the cursor is bound to, where the reader filters more closely than the ledger does. */
  cursorFilter?: object;
  /** False for readers who do not show how many there are: counting costs as much as the page. */
  total?: boolean;
};

export type FoundJobs = {
  jobs: Job[];
  totalCount: number;
  totalIsEstimate: boolean;
  nextCursor: string | null;
  hasMore: boolean;
};
