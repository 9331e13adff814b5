import { AppError } from '../core/errors.ts';
import type { Job } from '../core/job.ts';
import { type Batcher, createBatcher } from '../ledger/batcher.ts';
import type { Database } from '../ledger/database.ts';
import { getJobsOfOrgs, type WantedJob } from '../ledger/get-job.ts';

const MAX_BATCH = 200;
const MAX_WAITING = 5_000;
const MAX_WAIT_MS = 5_000;
const RETRY_AFTER_MS = 1_000;

const busy = () =>
  new AppError('UNAVAILABLE', { message: 'Too many wait for a job to be read.', retryAfterMs: RETRY_AFTER_MS });

/** Reads single jobs, many callers to a statement: however many look at jobs, they take two connections. */
export class Reader {
  readonly #batcher: Batcher<WantedJob, Job | null>;

  constructor({ database }: { database: Database }) {
    this.#batcher = createBatcher<WantedJob, Job | null>({
      send: (wanted) => getJobsOfOrgs(database.api, wanted),
      ...{ maxItems: MAX_BATCH, maxInFlight: 2, maxWaiting: MAX_WAITING, overflow: busy },
      ...{ maxWaitMs: MAX_WAIT_MS, expired: busy },
    });
  }

  /** A job of another org is as absent as one that never was. */
  get(orgId: string, id: string): Promise<Job | null> {
    return this.#batcher.add({ orgId, id });
  }
}
