import { durationMs } from '../core/duration.ts';
import { AppError } from '../core/errors.ts';
import type { JobUpdate } from '../core/job-change.ts';
import { checkMembers } from '../core/known-members.ts';
import { wholeOrg } from '../core/owner.ts';
import type { Submission } from '../core/submission.ts';
import type { Engine } from '../engine/engine.ts';
import type { Registration, RegistrationResult } from '../engine/work/registry.ts';
import type { Schedule } from '../ledger/queues/schedules.ts';
import { DeadLetterControls } from '../services/dead-letters/dead-letter-controls.ts';
import * as cancelling from '../services/jobs/cancel-job.ts';
import { countJobs, type JobCounts } from '../services/jobs/count-jobs.ts';
import { type Explanation, explainJob } from '../services/jobs/explain-job.ts';
import { followJob, type JobNews } from '../services/jobs/follow-job.ts';
import { type FailureDetails, inspectFailure } from '../services/jobs/inspect-failure.ts';
import { readJobView } from '../services/jobs/read-job.ts';
import { type LogPage, readLogs } from '../services/jobs/read-logs.ts';
import { type RetryResult, retryJob } from '../services/jobs/retry-job.ts';
import { searchJobViews } from '../services/jobs/search-jobs.ts';
import { submitJob } from '../services/jobs/submit-job.ts';
import { type BatchResult, submitMany } from '../services/jobs/submit-many.ts';
import { updateJob } from '../services/jobs/update-job.ts';
import { waitForJob } from '../services/jobs/wait-for-job.ts';
import { OperationControls } from '../services/operations/operation-controls.ts';
import { QueueControls } from '../services/queues/queue-controls.ts';
import { ScheduleControls } from '../services/schedules/schedule-controls.ts';
import type { ScheduleRequest } from '../services/schedules/schedule-request.ts';
import { Batches } from './batch.ts';
import { bestEffortOf, type EnqueueBestEffort } from './best-effort.ts';
import * as call from './call-options.ts';
import { CLOSE_PATIENCE_MS, OpenCalls } from './open-calls.ts';
import type { OpenOptions } from './open-options.ts';
import { type OpenParts, openParts } from './open-parts.ts';
import { publisherOf, type TaskProducer } from './producer.ts';
import type { EngineEvents, SearchPage } from './public-types.ts';
import type { ContextOf, FilterOf, JobId, JobOf, JobTypes, PayloadOf, ResultOf, SubmissionOf, Submitted, TypeOf } from './typed-jobs.ts';

/** The entry point of the library. It submits jobs, runs handlers for them, and reads their state. */
export class Millrace<Jobs extends JobTypes = JobTypes> {
  /** Pauses, resumes and limits queues, job types and orgs. */
  readonly queues: QueueControls;
  /** Reads, pauses, resumes and runs the schedules of the org. */
  readonly cron: ScheduleControls;
  /** Reads dead-lettered jobs, and replays, discards or corrects them. */
  readonly deadLetters: DeadLetterControls;
  /** Changes many jobs step by step, and reports each of them. */
  readonly operations: OperationControls;
  /** Submits batches of any size, and counts and awaits their jobs. */
  readonly batches: Batches<Jobs>;
  /** Publishes downloads for the org, which workers make as those of the ingest API. All of them are published, or none if it throws. */
  readonly publishTasks: TaskProducer['publishTasks'];
  /** Enqueues a notification, with `client` in your transaction. If that fails, your transaction goes on and the result is LOST. */
  readonly enqueueBestEffort: EnqueueBestEffort;
  readonly #engine: Engine;
  readonly #opened: Pick<OpenParts, 'postgres' | 'database'>;
  readonly #orgId: string;
  readonly #calls = new OpenCalls();
  #closing: Promise<void> | null = null;

  private constructor(parts: OpenParts) {
    this.#engine = parts.engine;
    this.#opened = parts;
    this.#orgId = parts.orgId;
    const run = <T>(work: () => Promise<T>) => this.#calls.run(work);
    this.queues = new QueueControls(parts.engine, run);
    this.cron = new ScheduleControls(parts.engine, parts.orgId, run);
    this.deadLetters = new DeadLetterControls(parts.engine, parts.orgId, { run });
    this.operations = new OperationControls(parts.engine, parts.orgId, { run });
    this.batches = new Batches<Jobs>({ ...parts, calls: this.#calls });
    this.publishTasks = publisherOf(parts, this.#calls);
    this.enqueueBestEffort = bestEffortOf(parts, this.#calls);
  }

  /**
   * Connects to the database, starting an embedded server if no address is given, and brings the schema up to date. Returns an
   * instance that can submit jobs immediately. Throws INVALID_CONFIG for options that are not valid.
   */
  static async open<Jobs extends JobTypes = JobTypes>(options: OpenOptions = {}): Promise<Millrace<Jobs>> {
    return new Millrace<Jobs>(await openParts(options));
  }

  /** The address of the database. Use it to connect a client for your transactions. */
  get databaseUrl(): string {
    return this.#opened.postgres.url;
  }

  /**
   * Registers the handler of a job type, and returns whether it replaced another one. Throws a RegistrationError for a registration that
   * cannot be used, and ALREADY_RUNNING after `start()`.
   */
  register<T extends TypeOf<Jobs>, P = PayloadOf<Jobs, T>, R extends ResultOf<Jobs, T> = ResultOf<Jobs, T>>(
    registration: Omit<Registration<P, R, ContextOf<Jobs>>, 'type'> & { type: T },
  ): RegistrationResult {
    this.#calls.check();
    if (this.#engine.isRunning) throw new AppError('ALREADY_RUNNING', { message: 'Register handlers before start().' });
    return this.#engine.registry.register(registration as unknown as Registration);
  }

  /**
   * Submits one job and returns its id and state. With `client`, the job is part of your transaction and exists once that commits.
   * Throws INVALID_REQUEST for a wrong submission, and DUPLICATE if its idempotency key was used for a different request.
   */
  submit<T extends TypeOf<Jobs>>(
    submission: SubmissionOf<Jobs> & { readonly type: T },
    options?: call.SubmitOptions,
  ): Promise<Submitted<T>> {
    if (options !== undefined) return this.#submitIn(submission as Submission, options) as Promise<Submitted<T>>;
    const request = { orgId: this.#orgId, submission: submission as Submission, actor: null };
    return this.#calls.run(() => submitJob(this.#engine, request)) as Promise<Submitted<T>>;
  }

  #submitIn(submission: Submission, options: call.SubmitOptions): Promise<Submitted<string>> {
    const request = { orgId: this.#orgId, submission, actor: null };
    return this.#call(options, call.OPTIONS.submit, () => submitJob(this.#engine, { ...request, client: call.queryable(options) }));
  }

  /** Runs a call, unless the instance is closed or the call has an option that it does not know. */
  #call<T>(options: object, known: readonly string[], work: () => Promise<T>): Promise<T> {
    return this.#calls.run(async () => {
      checkMembers(options, known);
      return work();
    });
  }

  /**
   * Submits 1 to 1000 jobs and returns one result for each, in order. By default either all jobs are accepted or none. With
   * `atomic: false` the valid ones are. Throws INVALID_REQUEST if the number of jobs is out of range.
   */
  submitMany(submissions: readonly SubmissionOf<Jobs>[], options: call.SubmitManyOptions = {}): Promise<BatchResult> {
    const batch = { orgId: this.#orgId, submissions: submissions as readonly Submission[], actor: null };
    return this.#call(options, call.OPTIONS.submitMany, () =>
      submitMany(this.#engine, { ...batch, atomic: options.atomic ?? true, client: call.queryable(options) }),
    );
  }

  /** Returns a job with its payload and result, and on request its history. Returns null if the job does not exist. */
  get<T extends TypeOf<Jobs>>(jobId: JobId<T> | string, options: call.GetOptions = {}): Promise<JobOf<Jobs, T> | null> {
    const reading = this.#call(options, call.OPTIONS.get, () =>
      readJobView(this.#engine, { id: jobId, ...wholeOrg(this.#orgId), includeResult: true, ...options }),
    );
    return reading as Promise<JobOf<Jobs, T> | null>;
  }

  /**
   * Returns a page of jobs that match every filter, with the cursor of the next page and the total. Throws INVALID_REQUEST for a
   * wrong filter, limit or cursor.
   */
  async search<T extends TypeOf<Jobs>>(filter: FilterOf<T> = {}, page: SearchPage = {}) {
    const found = await this.#calls.run(() => searchJobViews(this.#engine, { ...wholeOrg(this.#orgId), filter, page }));
    return { ...found, jobs: found.jobs as JobOf<Jobs, T>[] };
  }

  /** Returns counts, rates and latencies. Finished jobs count if they ended within `timeRange`, by default one hour. */
  stats(options: call.StatsOptions = {}): Promise<JobCounts> {
    return this.#call(options, call.OPTIONS.stats, () => countJobs(this.#engine, { ...options, orgId: this.#orgId }));
  }

  /**
   * Cancels a job immediately if it is not running. Otherwise aborts the signal of its handler, unless that cancels cooperatively. With
   * `force` the job ends even if the handler goes on. Returns a status, which is NOT_FOUND or ALREADY_COMPLETE if the job was not cancelled.
   */
  cancel(jobId: string, options: call.CancelOptions = {}): Promise<cancelling.CancellationResult> {
    return this.#call(options, call.OPTIONS.cancel, () => {
      const { reason = null, force = false } = options;
      return cancelling.cancelJob(this.#engine, { id: jobId, ...wholeOrg(this.#orgId), reason, force, actor: null });
    });
  }

  /**
   * Cancels jobs by id, by filter, or all of them with `{ all: true }`, and returns the number of jobs with each result. A dry run changes no
   * job. Throws INVALID_REQUEST for a filter that matches every job.
   */
  cancelMany(target: cancelling.CancelTarget, options: call.CancelManyOptions = {}): Promise<cancelling.BatchCancellationResult> {
    return this.#call(options, call.OPTIONS.cancelMany, () => {
      const { reason = null, force = false, dryRun = false } = options;
      const asked = { ...wholeOrg(this.#orgId), reason, force, dryRun, actor: null, signal: this.#calls.signal };
      return cancelling.cancelMany(this.#engine, { ...asked, target });
    });
  }

  /** Queues a failed or dead-lettered job for another attempt. Returns NOT_RETRIABLE for a job in any other state. */
  retry(jobId: string, options: call.RetryOptions = {}): Promise<RetryResult> {
    return this.#call(options, call.OPTIONS.retry, () => {
      const { resetAttempts = false, priority, delay } = options;
      return retryJob(this.#engine, { id: jobId, ...wholeOrg(this.#orgId), resetAttempts, priority, delay, actor: null });
    });
  }

  /**
   * Changes the priority, type, tags, correlation id or callback of a job. Returns the changed job, or null if it does not exist.
   * Throws CONFLICT if the job has started, for its priority and type, or has ended.
   */
  update(jobId: string, update: JobUpdate): Promise<JobOf<Jobs> | null> {
    const change = { id: jobId, ...wholeOrg(this.#orgId), update, read: readJobView };
    return this.#calls.run(() => updateJob(this.#engine, change)) as Promise<JobOf<Jobs> | null>;
  }

  /** Returns the newest failure of a job, even if it has run again since. Null if the job never failed or does not exist. */
  async failure(jobId: string, options: call.FailureOptions = {}): Promise<FailureDetails | null> {
    const inspected = await this.#call(options, call.OPTIONS.failure, () =>
      inspectFailure(this.#engine, { id: jobId, ...wholeOrg(this.#orgId), ...options }),
    );
    return inspected.kind === 'failed' ? inspected.details : null;
  }

  /** Returns the job once it has ended, in whatever final state. Throws TIMED_OUT after `timeout`, and NOT_FOUND for an unknown job. */
  waitFor<T extends TypeOf<Jobs>>(jobId: JobId<T> | string, options: call.WaitOptions = {}): Promise<JobOf<Jobs, T>> {
    const waiting = this.#call(options, call.OPTIONS.waitFor, () => {
      const timeoutMs = options.timeout === undefined ? null : durationMs(options.timeout, 'timeout');
      return waitForJob(this.#engine, { id: jobId, orgId: this.#orgId, timeoutMs, signal: options.signal });
    });
    return waiting as Promise<JobOf<Jobs, T>>;
  }

  /** Explains why a job is not running. Returns null if the job does not exist. */
  explain(jobId: string): Promise<Explanation | null> {
    return this.#calls.run(() => explainJob(this.#engine, { ...wholeOrg(this.#orgId), id: jobId }));
  }

  /**
   * Returns a page of the lines that the handler of a job logged, oldest first, or null if the job does not exist. Throws INVALID_REQUEST for
   * a wrong level, limit or cursor.
   */
  logs(jobId: string, options: call.LogsOptions = {}): Promise<LogPage | null> {
    return this.#call(options, call.OPTIONS.logs, () => readLogs(this.#engine, { ...wholeOrg(this.#orgId), id: jobId, ...options }));
  }

  /**
   * Yields the history of a job with its log lines and its progress, in the order of time, then what is new, until the job has ended. Of
   * progress only the newest is certain. Throws NOT_FOUND for an unknown job.
   */
  async *follow(jobId: string, options: call.FollowOptions = {}): AsyncGenerator<JobNews, void> {
    checkMembers(options, call.OPTIONS.follow);
    const signal = this.#calls.signalWith(options.signal);
    yield* this.#calls.iterate(followJob(this.#engine, { orgId: this.#orgId, id: jobId, signal }));
  }

  /** Calls the listener for each event of this process. Returns a function that removes the listener. */
  on<E extends keyof EngineEvents>(event: E, listener: (facts: EngineEvents[E]) => void): () => void {
    this.#calls.check();
    call.checkListener(event, listener);
    return this.#engine.events.on(event, listener);
  }

  /**
   * Submits a job repeatedly, by cron expression and time zone, and returns the schedule. A second call with the same key replaces it.
   * Throws INVALID_REQUEST for a wrong expression, time zone or submission.
   */
  schedule(key: string, schedule: Omit<ScheduleRequest, 'submission'> & { submission: SubmissionOf<Jobs> }): Promise<Schedule> {
    return this.cron.put(key, schedule as ScheduleRequest);
  }

  /** Removes a schedule. Returns whether it existed. */
  unschedule(key: string): Promise<boolean> {
    return this.cron.remove(key);
  }

  /** Returns all schedules of the org. */
  schedules(): Promise<Schedule[]> {
    return this.cron.all();
  }

  /** Starts workers for the registered job types. Has no effect if they are running. */
  start(): Promise<void> {
    if (this.#closing !== null) return Promise.reject(new AppError('CLOSED'));
    return this.#engine.start();
  }

  /**
   * Stops claiming jobs and waits up to `grace` (30 s by default) for running handlers. Jobs that still run return to the queue, and
   * their attempt does not count.
   */
  drain(options: call.DrainOptions = {}): Promise<void> {
    return this.#calls.run(async () => this.#engine.drain(call.graceMs(options)));
  }

  /**
   * Drains the workers and closes the database. Later calls throw CLOSED; handlers that still run may make calls until they end. Repeated calls
   * return the same promise. The last process that uses an embedded server stops it.
   */
  async close(options: call.DrainOptions = {}): Promise<void> {
    this.#closing ??= this.#close(call.graceMs(options));
    await this.#closing;
  }

  async #close(graceMs: number): Promise<void> {
    this.#calls.beginClose(() => this.#engine.isBusy);
    await this.#engine.drain(graceMs);
    this.#calls.shut();
    await this.#engine.close(0);
    await this.#calls.ended(CLOSE_PATIENCE_MS);
    await this.#opened.database.close();
    await this.#opened.postgres.close();
  }

  /** Closes the instance at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
