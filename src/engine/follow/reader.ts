import { AppError } from '../../core/errors.ts';
import type { Job, JobSummary, StateTransition } from '../../core/job.ts';
import { type Batcher, createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { getJobsOfOrgs, type JobParts, type WantedJob, type WithPayload } from '../../ledger/reads/get-job.ts';
import { historiesOfOrgs } from '../../ledger/reads/job-history.ts';

const MAX_BATCH = 200;
const MAX_WAITING = 5_000;
const MAX_WAIT_MS = 5_000;
const RETRY_AFTER_MS = 1_000;

const busy = () =>
  new AppError('UNAVAILABLE', { message: 'Too many wait for a job to be read.', retryAfterMs: RETRY_AFTER_MS });

const BOUNDS = {
  ...{ maxItems: MAX_BATCH, maxInFlight: 2, maxWaiting: MAX_WAITING, overflow: busy },
  ...{ maxWaitMs: MAX_WAIT_MS, expired: busy },
} as const;

/** Reads single jobs, many callers to a statement: however many look at jobs or histories, they take two connections for each. */
export class Reader {
  readonly #jobs: Batcher<WantedJob, JobSummary | null>;
  readonly #histories: Batcher<WantedJob, StateTransition[]>;

  constructor({ database }: { database: Database }) {
    this.#jobs = createBatcher({ send: (wanted) => getJobsOfOrgs(database.api, wanted), ...BOUNDS });
    this.#histories = createBatcher({ send: (wanted) => historiesOfOrgs(database.api, wanted), ...BOUNDS });
  }

  /** Null: the org has no such job. */
  get(orgId: string, id: string, parts: WithPayload): Promise<Job | null>;
  get(orgId: string, id: string, parts?: JobParts): Promise<JobSummary | null>;
  get(orgId: string, id: string, parts: JobParts = {}): Promise<JobSummary | null> {
    return this.#jobs.add({ orgId, id, ...parts });
  }

  /** Every change of state, oldest first; none of a job that the org does not have. */
  history(orgId: string, id: string): Promise<StateTransition[]> {
    return this.#histories.add({ orgId, id });
  }
}
