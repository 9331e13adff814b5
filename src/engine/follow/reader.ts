import type { Job, JobSummary, StateTransition } from '../../core/job.ts';
import type { Owner } from '../../core/owner.ts';
import type { Batcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { getJobsOfOrgs, type JobParts, type WantedJob, type WithPayload } from '../../ledger/reads/get-job.ts';
import { historiesOfOrgs } from '../../ledger/reads/job-history.ts';
import { type FoundNews, readNews, type WantedNews } from '../../ledger/reads/job-news.ts';
import { createCallBatcher } from '../call-batcher.ts';

const LIMITS = { busy: 'Too many requests to read a job are waiting. Try again in a moment.', maxWaitMs: 5_000 };

/** Lines may be long, so a statement reads those of few jobs. */
const NEWS_PER_STATEMENT = 20;

/** Reads single jobs and histories, many callers to a statement, on two connections at most for each kind. */
export class Reader {
  readonly #jobs: Batcher<WantedJob, JobSummary | null>;
  readonly #histories: Batcher<WantedJob, StateTransition[]>;
  readonly #news: Batcher<WantedNews, FoundNews>;

  constructor({ database }: { database: Database }) {
    this.#jobs = createCallBatcher({ send: (wanted) => getJobsOfOrgs(database.api, wanted), ...LIMITS });
    this.#histories = createCallBatcher({ send: (wanted) => historiesOfOrgs(database.api, wanted), ...LIMITS });
    this.#news = createCallBatcher({ send: (wanted) => readNews(database.api, wanted), ...LIMITS, maxItems: NEWS_PER_STATEMENT });
  }

  /** Null: the owner has no such job. */
  get(owner: Owner, id: string, parts: WithPayload): Promise<Job | null>;
  get(owner: Owner, id: string, parts?: JobParts): Promise<JobSummary | null>;
  get({ orgId, projectId }: Owner, id: string, parts: JobParts = {}): Promise<JobSummary | null> {
    return this.#jobs.add({ orgId, projectId, id, ...parts });
  }

  /** Every change of state, oldest first; empty if the owner has no such job. */
  history({ orgId, projectId }: Owner, id: string): Promise<StateTransition[]> {
    return this.#histories.add({ orgId, projectId, id });
  }

  /** The progress of a job and its log lines after a position. The caller has checked whose job it is. */
  news(wanted: WantedNews): Promise<FoundNews> {
    return this.#news.add(wanted);
  }
}
