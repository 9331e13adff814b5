import type pg from 'pg';
import type { DurationInput } from '../core/duration.ts';
import { AppError } from '../core/errors.ts';
import type { JobUpdate } from '../core/job-change.ts';
import type { Submission } from '../core/submission.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineEvents } from '../engine/events.ts';
import type { Registration, RegistrationResult } from '../engine/work/registry.ts';
import { DEFAULT_ORG_ID } from '../ledger/access/orgs.ts';
import { type Database, openDatabase } from '../ledger/driver/database.ts';
import { checkSchema, migrate } from '../ledger/driver/migrate.ts';
import type { Schedule } from '../ledger/queues/schedules.ts';
import type { Breakdown } from '../ledger/reads/count-jobs.ts';
import type { JobFilter, SearchPage } from '../ledger/search/search-jobs.ts';
import { openPostgres, type PostgresHandle } from '../postgres/open.ts';
import {
  type BatchCancellationResult,
  type CancellationResult,
  cancelJob,
  cancelMany,
} from '../services/jobs/cancel-job.ts';
import { countJobs, type JobCounts } from '../services/jobs/count-jobs.ts';
import { createEngine } from '../services/jobs/create-engine.ts';
import { type Explanation, explainJob } from '../services/jobs/explain-job.ts';
import { type FailureDetails, inspectFailure } from '../services/jobs/inspect-failure.ts';
import { readJobView } from '../services/jobs/read-job.ts';
import { type RetryParams, type RetryResult, retryJob } from '../services/jobs/retry-job.ts';
import { listSchedules, removeSchedule, type ScheduleParams, scheduleJob } from '../services/jobs/schedule-job.ts';
import { searchJobViews } from '../services/jobs/search-jobs.ts';
import { submitJob } from '../services/jobs/submit-job.ts';
import { type BatchResult, submitMany } from '../services/jobs/submit-many.ts';
import { updateJob } from '../services/jobs/update-job.ts';
import { waitForJob } from '../services/jobs/wait-for-job.ts';
import { QueueControls } from '../services/queues/queue-controls.ts';
import { checkedProfile, type OpenOptions, optionalMs } from './open-options.ts';
import { durationMs } from './read-duration.ts';
import type {
  ContextOf,
  FilterOf,
  JobId,
  JobOf,
  JobTypes,
  PayloadOf,
  ResultOf,
  SubmissionOf,
  Submitted,
  TypeOf,
} from './typed-jobs.ts';

const DRAIN_GRACE_MS = 30_000;

/** Millrace in your process: submit jobs, handle them, ask about them. */
export class Millrace<Jobs extends JobTypes = JobTypes> {
  readonly queues: QueueControls;
  readonly #engine: Engine;
  readonly #postgres: PostgresHandle;
  readonly #database: Database;
  readonly #orgId: string;
  #isClosed = false;

  private constructor(parts: { engine: Engine; postgres: PostgresHandle; database: Database; orgId: string }) {
    this.#engine = parts.engine;
    this.#postgres = parts.postgres;
    this.#database = parts.database;
    this.#orgId = parts.orgId;
    this.queues = new QueueControls(parts.engine);
  }

  static async open<Jobs extends JobTypes = JobTypes>(options: OpenOptions = {}): Promise<Millrace<Jobs>> {
    const profile = checkedProfile(options);
    const postgres = await openPostgres({
      databaseUrl: options.database,
      home: options.home,
      onNotice: options.onNotice,
    });
    const { api: apiPool, workers: workerPool } = options.pools ?? {};
    const database = openDatabase({ url: postgres.url, apiPool, workerPool, sharesSessions: true });
    try {
      if (options.migrate === false) await checkSchema(database.maintenance);
      else await migrate(database.maintenance);
      const engine = createEngine({
        database,
        profile,
        limits: options.maxPayloadBytes === undefined ? undefined : { maxPayloadBytes: options.maxPayloadBytes },
        concurrency: options.concurrency,
        queues: options.queues,
        name: options.name,
        heartbeatMs: optionalMs(options, 'heartbeat'),
        revokedKeysMs: optionalMs(options, 'keepRevokedKeys'),
      });
      await engine.open();
      return new Millrace<Jobs>({ engine, postgres, database, orgId: options.org ?? DEFAULT_ORG_ID });
    } catch (error) {
      await database.close();
      await postgres.close();
      throw error;
    }
  }

  /** The address of the database in use, for clients of your own transactions. */
  get databaseUrl(): string {
    return this.#postgres.url;
  }

  /** Says how to handle a job type. Must precede start(). */
  register<T extends TypeOf<Jobs>, P = PayloadOf<Jobs, T>, R extends ResultOf<Jobs, T> = ResultOf<Jobs, T>>(
    registration: Omit<Registration<P, R, ContextOf<Jobs>>, 'type'> & { type: T },
  ): RegistrationResult {
    if (this.#engine.isRunning) throw new AppError('ALREADY_RUNNING', { message: 'Register handlers before start().' });
    return this.#engine.registry.register(registration as unknown as Registration);
  }

  /** Accepts one job. With `client`, inside your own transaction: the job exists exactly when that commits. */
  submit<T extends TypeOf<Jobs>>(
    submission: SubmissionOf<Jobs> & { readonly type: T },
    options: { client?: pg.ClientBase } = {},
  ): Promise<Submitted<T>> {
    return submitJob(this.#engine, {
      orgId: this.#orgId,
      submission: submission as Submission,
      actor: null,
      client: options.client,
    });
  }

  /** Accepts 1 to 1000 jobs: all or none unless `atomic` is false. */
  submitMany(
    submissions: readonly SubmissionOf<Jobs>[],
    options: { atomic?: boolean; client?: pg.ClientBase } = {},
  ): Promise<BatchResult> {
    const { atomic = true, client } = options;
    return submitMany(this.#engine, {
      orgId: this.#orgId,
      submissions: submissions as readonly Submission[],
      atomic,
      actor: null,
      client,
    });
  }

  get<T extends TypeOf<Jobs>>(
    jobId: JobId<T> | string,
    options: { includeResult?: boolean; includeHistory?: boolean } = {},
  ): Promise<JobOf<Jobs, T> | null> {
    const reading = readJobView(this.#engine, { id: jobId, orgId: this.#orgId, includeResult: true, ...options });
    return reading as Promise<JobOf<Jobs, T> | null>;
  }

  async search<T extends TypeOf<Jobs>>(filter: FilterOf<T> = {}, page: SearchPage = {}) {
    const found = await searchJobViews(this.#engine, { orgId: this.#orgId, filter, page });
    return { ...found, jobs: found.jobs as JobOf<Jobs, T>[] };
  }

  /** Counts, rates and latencies. `timeRange` is how far back finished jobs count; by default one hour. */
  async stats(options: { timeRange?: DurationInput; breakdownBy?: readonly Breakdown[] } = {}): Promise<JobCounts> {
    return countJobs(this.#engine, { ...options, orgId: this.#orgId });
  }

  cancel(jobId: string, options: { reason?: string; force?: boolean } = {}): Promise<CancellationResult> {
    const { reason = null, force = false } = options;
    return cancelJob(this.#engine, { id: jobId, orgId: this.#orgId, reason, force, actor: null });
  }

  cancelMany(
    target: { ids: readonly string[] } | { filter: JobFilter },
    options: { reason?: string; force?: boolean; dryRun?: boolean } = {},
  ): Promise<BatchCancellationResult> {
    const { reason = null, force = false, dryRun = false } = options;
    return cancelMany(this.#engine, { orgId: this.#orgId, reason, force, dryRun, actor: null, ...target });
  }

  /** Gives a failed or dead-lettered job another attempt. */
  retry(
    jobId: string,
    options: Partial<Pick<RetryParams, 'resetAttempts' | 'priority' | 'delay'>> = {},
  ): Promise<RetryResult> {
    const { resetAttempts = false, priority, delay } = options;
    return retryJob(this.#engine, { id: jobId, orgId: this.#orgId, resetAttempts, priority, delay, actor: null });
  }

  /** Changes the priority, tags, correlation id, callback or type of a job while it still may be changed. */
  update(jobId: string, update: JobUpdate): Promise<JobOf<Jobs> | null> {
    const updating = updateJob(this.#engine, { id: jobId, orgId: this.#orgId, update, read: readJobView });
    return updating as Promise<JobOf<Jobs> | null>;
  }

  /** Why a job failed, whatever became of it since. Null when it never failed, or does not exist. */
  async failure(jobId: string, options: { includeAllAttempts?: boolean } = {}): Promise<FailureDetails | null> {
    const inspected = await inspectFailure(this.#engine, { id: jobId, orgId: this.#orgId, ...options });
    return inspected.kind === 'failed' ? inspected.details : null;
  }

  /** Answers when the job has ended, however it ended. */
  waitFor<T extends TypeOf<Jobs>>(
    jobId: JobId<T> | string,
    options: { timeout?: DurationInput; signal?: AbortSignal } = {},
  ): Promise<JobOf<Jobs, T>> {
    const timeoutMs = options.timeout === undefined ? null : durationMs(options.timeout, 'timeout');
    const waiting = waitForJob(this.#engine, { id: jobId, orgId: this.#orgId, timeoutMs, signal: options.signal });
    return waiting as Promise<JobOf<Jobs, T>>;
  }

  /** Why is it not running? */
  explain(jobId: string): Promise<Explanation | null> {
    return explainJob(this.#engine, { orgId: this.#orgId, id: jobId });
  }

  /** Hears what happens in this process. Answers a function that stops listening. */
  on<E extends keyof EngineEvents>(event: E, listener: (facts: EngineEvents[E]) => void): () => void {
    return this.#engine.events.on(event, listener);
  }

  /** Submits a job again and again, by cron expression and time zone. */
  schedule(
    key: string,
    schedule: Omit<ScheduleParams, 'orgId' | 'key' | 'submission'> & { submission: SubmissionOf<Jobs> },
  ): Promise<Schedule> {
    const submission = schedule.submission as Submission;
    return scheduleJob(this.#engine, { ...schedule, submission, orgId: this.#orgId, key });
  }

  /** Removes a schedule. Returns whether there was one. */
  unschedule(key: string): Promise<boolean> {
    return removeSchedule(this.#engine, { orgId: this.#orgId, key });
  }

  schedules(): Promise<Schedule[]> {
    return listSchedules(this.#engine, { orgId: this.#orgId });
  }

  /** Begins to work on what was registered. */
  start(): Promise<void> {
    return this.#engine.start();
  }

  /** Stops claiming, lets handlers finish for `grace` (30 s), then gives the rest back without burning an attempt. */
  drain(options: { grace?: DurationInput } = {}): Promise<void> {
    return this.#engine.drain(graceMs(options));
  }

  /** Drains, and lets go of the database. The last process to close an embedded server stops it. */
  async close(options: { grace?: DurationInput } = {}): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#engine.close(graceMs(options));
    await this.#database.close();
    await this.#postgres.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function graceMs({ grace }: { grace?: DurationInput }): number {
  return grace === undefined ? DRAIN_GRACE_MS : durationMs(grace, 'grace');
}
