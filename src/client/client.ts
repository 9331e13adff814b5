import type {
  BatchCancellation,
  BatchCancellationResult,
  BatchResult,
  BatchSubmission,
  CancellationNotFound,
  CancellationRequest,
  CancellationResult,
  Explanation,
  FailureDetails,
  FailureSearch,
  FailureSearchResult,
  FollowEventsQuery,
  GetFailureQuery,
  GetJobQuery,
  GetStatsQuery,
  JobSearch,
  JobSearchResult,
  JobStatus,
  JobSubmission,
  JobUpdate,
  QueueStats,
  RetryNotFound,
  RetryRequest,
  RetryResult,
  SubmissionResult,
} from './api-types.ts';
import { type FollowedEvent, type FollowOptions, follow } from './follow.ts';
import { allPages } from './pages.ts';
import { type CallOptions, type ClientOptions, Transport } from './transport.ts';
import { type WaitOptions, waitForJob } from './wait-for-job.ts';

/** Every operation of the queue API. Members are spelled as on the wire. */
export class MillraceClient {
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
  }

  /**
   * Submits a job. A job without an idempotency key gets one that every retry repeats, so that a lost response never leads to a
   * second job.
   */
  async submit(submission: JobSubmission, { signal }: CallOptions = {}): Promise<SubmissionResult> {
    const body = withKey(submission);
    const result = await this.#transport.json<SubmissionResult>({ method: 'POST', path: '/jobs', body, signal });
    return submission.idempotency_key == null ? asFirst(result) : result;
  }

  /** Submits up to 1000 jobs, all or none unless `atomic` is false. Jobs without an idempotency key get one each. */
  async submitBatch(batch: BatchSubmission, { signal }: CallOptions = {}): Promise<BatchResult> {
    const body = { ...batch, jobs: batch.jobs.map(withKey) };
    const answer = await this.#transport.json<BatchResult>({ method: 'POST', path: '/jobs/batch', body, signal });
    const results = answer.results.map((result, i) => (batch.jobs[i]?.idempotency_key == null ? asFirst(result) : result));
    return { ...answer, results };
  }

  /** Returns a job. Throws NotFoundError if the org has no such job. */
  get(jobId: string, query: GetJobQuery = {}, { signal }: CallOptions = {}): Promise<JobStatus> {
    return this.#transport.json({ method: 'GET', path: pathOf(jobId), query, signal });
  }

  /** Iterates over all matching jobs and fetches pages as needed. */
  search(search: JobSearch = {}, options: CallOptions = {}): AsyncGenerator<JobStatus, void> {
    const read = async (cursor: string | undefined) => {
      const { jobs, next_cursor } = await this.searchPage({ ...search, cursor }, options);
      return { items: jobs, nextCursor: next_cursor };
    };
    return allPages({ cursor: search.cursor, signal: options.signal, read });
  }

  /** Returns one page of jobs that match the search. */
  searchPage(body: JobSearch = {}, { signal }: CallOptions = {}): Promise<JobSearchResult> {
    return this.#transport.json({ method: 'POST', path: '/jobs/search', body, signal });
  }

  /** Returns counts, rates and latencies. */
  stats(query: GetStatsQuery = {}, { signal }: CallOptions = {}): Promise<QueueStats> {
    return this.#transport.json({ method: 'GET', path: '/stats', query, signal });
  }

  /** Returns `status: 'NOT_FOUND'` for a job that does not exist, instead of throwing. */
  cancel(jobId: string, body: CancellationRequest = {}, { signal }: CallOptions = {}): Promise<CancellationResult | CancellationNotFound> {
    return this.#transport.json({ method: 'POST', path: `${pathOf(jobId)}/cancel`, body, signal, accepts: [404] });
  }

  /** Cancels jobs by id or by filter, and returns the number of jobs with each result. */
  cancelMany(body: BatchCancellation, { signal }: CallOptions = {}): Promise<BatchCancellationResult> {
    return this.#transport.json({ method: 'POST', path: '/jobs/cancel', body, signal });
  }

  /** Returns the newest failure of a job. */
  failure(jobId: string, query: GetFailureQuery = {}, { signal }: CallOptions = {}): Promise<FailureDetails> {
    return this.#transport.json({ method: 'GET', path: `${pathOf(jobId)}/failure`, query, signal });
  }

  /** Iterates over all matching failures and fetches pages as needed. */
  searchFailures(search: FailureSearch = {}, options: CallOptions = {}): AsyncGenerator<FailureDetails, void> {
    const read = async (cursor: string | undefined) => {
      const pagination = { ...search.pagination, cursor };
      const { failures, next_cursor } = await this.searchFailuresPage({ ...search, pagination }, options);
      return { items: failures, nextCursor: next_cursor };
    };
    return allPages({ cursor: search.pagination?.cursor, signal: options.signal, read });
  }

  /** Returns one page of failed jobs that match the search. */
  searchFailuresPage(body: FailureSearch = {}, { signal }: CallOptions = {}): Promise<FailureSearchResult> {
    return this.#transport.json({ method: 'POST', path: '/failures/search', body, signal });
  }

  /**
   * Runs a failed or dead-lettered job again. The client repeats this call only after a 429, because after a lost response the job
   * may already be running. Returns `status: 'NOT_FOUND'` for a job that does not exist, instead of throwing.
   */
  retry(jobId: string, body: RetryRequest = {}, { signal }: CallOptions = {}): Promise<RetryResult | RetryNotFound> {
    const path = `${pathOf(jobId)}/retry`;
    return this.#transport.json({ method: 'POST', path, body, signal, accepts: [404], isUnrepeatable: true });
  }

  /** Changes a job and returns it. */
  update(jobId: string, body: JobUpdate, { signal }: CallOptions = {}): Promise<JobStatus> {
    return this.#transport.json({ method: 'PATCH', path: pathOf(jobId), body, signal });
  }

  /** Explains why a job is in its state and what it waits for. */
  explain(jobId: string, { signal }: CallOptions = {}): Promise<Explanation> {
    return this.#transport.json({ method: 'GET', path: `${pathOf(jobId)}/explain`, signal });
  }

  /** Returns the job with its result after it has ended, whatever the outcome. */
  waitFor(jobId: string, options: WaitOptions = {}): Promise<JobStatus> {
    return waitForJob(this, jobId, options);
  }

  /** Follows every change of state in the org, from now on or after `lastEventId`. Reconnects when the connection breaks. */
  events({
    lastEventId,
    signal,
    ...query
  }: Omit<FollowEventsQuery, 'last_event_id'> & FollowOptions = {}): AsyncGenerator<FollowedEvent, void> {
    const { type, state, job_id } = query;
    const filter = { type, state, job_id };
    return follow({
      transport: this.#transport,
      path: '/events',
      query: filter,
      isOfOneJob: false,
      lastEventId,
      signal,
    });
  }

  /** Yields the history of one job, then each change as it happens. Ends with the event that ends the job. */
  jobEvents(
    jobId: string,
    { lastEventId, signal, maxFailures }: FollowOptions & { maxFailures?: number } = {},
  ): AsyncGenerator<FollowedEvent, void> {
    const path = `${pathOf(jobId)}/events`;
    return follow({ transport: this.#transport, path, isOfOneJob: true, lastEventId, signal, maxFailures });
  }
}

const pathOf = (jobId: string): string => `/jobs/${encodeURIComponent(jobId)}`;

const withKey = (submission: JobSubmission): JobSubmission => ({
  ...submission,
  idempotency_key: submission.idempotency_key ?? newKey(),
});

/** A web page without https has no `randomUUID`, only random bytes. */
function newKey(): string {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** A duplicate of a key made here is a retry of this call, so the job counts as accepted. */
function asFirst<R extends { status: string; existing_job_id?: string }>(result: R): R {
  if (result.status !== 'DUPLICATE') return result;
  const { existing_job_id: _, ...rest } = result;
  return { ...rest, status: 'ACCEPTED' } as R;
}
