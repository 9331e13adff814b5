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
  FollowJobQuery,
  GetFailureQuery,
  GetJobQuery,
  GetStatsQuery,
  JobLogLine,
  JobLogs,
  JobSearch,
  JobSearchResult,
  JobStatus,
  JobSubmission,
  JobUpdate,
  ListSchedulesQuery,
  NewSchedule,
  NextRuns,
  NextRunsQuery,
  QueueStats,
  ReadLogsQuery,
  RetryNotFound,
  RetryRequest,
  RetryResult,
  Schedule,
  ScheduleChange,
  ScheduledJob,
  ScheduleList,
  ScheduleReason,
  ScheduleReplacement,
  SubmissionResult,
} from './api-types.ts';
import { ClientArtifacts } from './artifacts.ts';
import { ClientBatches } from './batches.ts';
import { ClientDeadLetters } from './dead-letters.ts';
import { type FollowedEvent, type FollowedNews, type FollowOptions, follow } from './follow.ts';
import { ClientOperations } from './operations.ts';
import { allPages } from './pages.ts';
import { type CallOptions, type ClientOptions, Transport } from './transport.ts';
import { type WaitOptions, waitForJob } from './wait-for-job.ts';

type EventsQuery = Omit<FollowEventsQuery, 'last_event_id' | 'include'>;
type JobEventsOptions = FollowOptions & { maxFailures?: number };

/** Submits, reads, changes and follows jobs over the queue API. Members are spelled as on the wire. */
export class MillraceClient {
  readonly #transport: Transport;
  /** Files of jobs and inputs of imports. */
  readonly artifacts: ClientArtifacts;
  /** Batches of any size, which can be counted and awaited. */
  readonly batches: ClientBatches;
  /** Jobs that failed for good. */
  readonly deadLetters: ClientDeadLetters;
  /** Changes of many jobs, with dry run, canary, rate and undo. */
  readonly operations: ClientOperations;

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
    this.artifacts = new ClientArtifacts(this.#transport);
    this.batches = new ClientBatches(this.#transport);
    this.deadLetters = new ClientDeadLetters(this.#transport);
    this.operations = new ClientOperations(this.#transport);
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

  /** Iterates over all schedules in the order of their keys, and fetches pages as needed. */
  schedules(query: ListSchedulesQuery = {}, options: CallOptions = {}): AsyncGenerator<Schedule, void> {
    const read = async (cursor: string | undefined) => {
      const { items, next_cursor } = await this.schedulesPage({ ...query, cursor }, options);
      return { items, nextCursor: next_cursor };
    };
    return allPages({ cursor: query.cursor, signal: options.signal, read });
  }

  /** Returns one page of schedules. */
  schedulesPage(query: ListSchedulesQuery = {}, { signal }: CallOptions = {}): Promise<ScheduleList> {
    return this.#transport.json({ method: 'GET', path: '/schedules', query, signal });
  }

  /** Returns a schedule. Throws NotFoundError if the org has none with this key. */
  getSchedule(key: string, { signal }: CallOptions = {}): Promise<Schedule> {
    return this.#transport.json({ method: 'GET', path: scheduleOf(key), signal });
  }

  /** Creates a schedule with a new key. The client repeats this call only after a 429, because a repeat finds its own schedule. */
  createSchedule(body: NewSchedule, { signal }: CallOptions = {}): Promise<Schedule> {
    return this.#transport.json({ method: 'POST', path: '/schedules', body, signal, isUnrepeatable: true });
  }

  /** Creates a schedule, or replaces all members of the one with this key. */
  putSchedule(key: string, body: ScheduleReplacement, { signal }: CallOptions = {}): Promise<Schedule> {
    return this.#transport.json({ method: 'PUT', path: scheduleOf(key), body, signal });
  }

  /** Changes some members of a schedule, such as `paused`, and returns it. */
  changeSchedule(key: string, body: ScheduleChange, { signal }: CallOptions = {}): Promise<Schedule> {
    return this.#transport.json({ method: 'PATCH', path: scheduleOf(key), body, signal });
  }

  /** Deletes a schedule and returns it as it was. Jobs that it submitted continue. */
  deleteSchedule(key: string, body: ScheduleReason = {}, { signal }: CallOptions = {}): Promise<Schedule> {
    return this.#transport.json({ method: 'DELETE', path: scheduleOf(key), body, signal, isUnrepeatable: true });
  }

  /** Submits the job of a schedule now. The client repeats this call only after a 429, because a repeat is another job. */
  runSchedule(key: string, body: ScheduleReason = {}, { signal }: CallOptions = {}): Promise<ScheduledJob> {
    return this.#transport.json({ method: 'POST', path: `${scheduleOf(key)}/run`, body, signal, isUnrepeatable: true });
  }

  /** Returns the next times of a schedule, with the changes of the clocks in its zone. */
  nextRuns(key: string, query: NextRunsQuery = {}, { signal }: CallOptions = {}): Promise<NextRuns> {
    return this.#transport.json({ method: 'GET', path: `${scheduleOf(key)}/next`, query, signal });
  }

  /** Returns the job with its result after it has ended, whatever the outcome. */
  waitFor(jobId: string, options: WaitOptions = {}): Promise<JobStatus> {
    return waitForJob(this, jobId, options);
  }

  /** Iterates over the log lines of a job, oldest first, and fetches pages as needed. Throws NotFoundError if the org has no such job. */
  logs(jobId: string, query: Omit<ReadLogsQuery, 'cursor'> = {}, options: CallOptions = {}): AsyncGenerator<JobLogLine, void> {
    const read = async (cursor: string | undefined) => {
      const { lines, next_cursor } = await this.logsPage(jobId, { ...query, cursor }, options);
      return { items: lines, nextCursor: next_cursor };
    };
    return allPages({ cursor: undefined, signal: options.signal, read });
  }

  /** Returns one page of the log lines of a job. */
  logsPage(jobId: string, query: ReadLogsQuery = {}, { signal }: CallOptions = {}): Promise<JobLogs> {
    return this.#transport.json({ method: 'GET', path: `${pathOf(jobId)}/logs`, query, signal });
  }

  /**
   * Follows every change of state in the org, from now on or after `lastEventId`. Reconnects when the connection breaks. With `include`, it
   * also yields progress and log lines that come while it is connected.
   */
  events(query: EventsQuery & FollowOptions & { include: NonNullable<FollowEventsQuery['include']> }): AsyncGenerator<FollowedNews, void>;
  /** Follows every change of state in the org. */
  events(query?: EventsQuery & FollowOptions): AsyncGenerator<FollowedEvent, void>;
  events({
    lastEventId,
    signal,
    ...query
  }: Omit<FollowEventsQuery, 'last_event_id'> & FollowOptions = {}): AsyncGenerator<FollowedNews, void> {
    const { type, state, job_id, include } = query;
    const filter = { type, state, job_id, include };
    return follow({
      transport: this.#transport,
      path: '/events',
      query: filter,
      isOfOneJob: false,
      lastEventId,
      signal,
    });
  }

  /**
   * Yields the history of one job, then each change as it happens. Ends with the event that ends the job. With `include`, it also yields the
   * newest progress and all log lines.
   */
  jobEvents(
    jobId: string,
    options: JobEventsOptions & { include: NonNullable<FollowJobQuery['include']> },
  ): AsyncGenerator<FollowedNews, void>;
  /** Yields the history of one job, then each change as it happens. */
  jobEvents(jobId: string, options?: JobEventsOptions): AsyncGenerator<FollowedEvent, void>;
  jobEvents(
    jobId: string,
    { lastEventId, signal, maxFailures, include }: JobEventsOptions & Pick<FollowJobQuery, 'include'> = {},
  ): AsyncGenerator<FollowedNews, void> {
    const path = `${pathOf(jobId)}/events`;
    return follow({ transport: this.#transport, path, query: { include }, isOfOneJob: true, lastEventId, signal, maxFailures });
  }
}

const pathOf = (jobId: string): string => `/jobs/${encodeURIComponent(jobId)}`;

const scheduleOf = (key: string): string => `/schedules/${encodeURIComponent(key)}`;

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
