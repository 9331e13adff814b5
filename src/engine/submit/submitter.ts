import { AppError } from '../../core/errors.ts';
import { SUBMISSION_TIMEOUT_MS } from '../../core/policy.ts';
import { takeJobs } from '../../ledger/attempts/take-jobs.ts';
import { type Batcher, createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { isBare } from '../../ledger/jobs/submit-alike.ts';
import type { Attempted, Written } from '../../ledger/jobs/submit-jobs.ts';
import { submitStarted } from '../../ledger/jobs/submit-started.ts';
import type { Producers } from '../work/producers.ts';
import { type AcceptedJobs, acceptedJobs } from './accepted-jobs.ts';
import { type JobWriter, lengthOfEntry, MAX_BATCH } from './job-writer.ts';
import { SubmitConnections } from './submit-connections.ts';
import { writeAndFlush } from './write-and-flush.ts';

export type SubmitterOptions = {
  database: Database;
  writer: JobWriter;
  /** An idle one starts a lone job at once. */
  producers: Pick<Producers, 'claimWith'>;
  fairQueues(): ReadonlySet<string>;
  /** Whether this process may keep a second session for submissions. */
  hasSpareSession(): boolean;
  /** Notifies other processes of jobs that may start at once, right behind the statement on `db` that writes them. */
  notify(db: Queryable, jobs: number): void;
  /** Called with what was accepted. `isFollowed`: a claim of this process follows the jobs already. */
  onAccepted(accepted: AcceptedJobs, how: { isFollowed: boolean }): void;
};

const MAX_WAITING = 20_000;
const MAX_IN_FLIGHT = 3;
/** What connecting and writing may take at most, so that a caller has its result within the submission timeout. */
const STATEMENT_MS = 10_000;

const tooManyWaiting = (): AppError =>
  new AppError('QUOTA_EXCEEDED', {
    message: `More than ${MAX_WAITING} submissions are waiting to be written. Try again in a moment.`,
    retryAfterMs: 1_000,
  });

const notInTime = (): AppError =>
  new AppError('UNAVAILABLE', {
    message: 'The database did not accept the job in time. Try again in a moment.',
    retryAfterMs: 1_000,
  });

/** Writes single jobs, many callers to a statement. */
export class Submitter {
  readonly #options: SubmitterOptions;
  readonly #batcher: Batcher<JobToWrite, Attempted>;
  readonly #connections: SubmitConnections;

  constructor(options: SubmitterOptions) {
    this.#options = options;
    this.#connections = new SubmitConnections(options);
    this.#batcher = createBatcher<JobToWrite, Attempted>({
      send: (entries) => this.#send(entries),
      maxItems: MAX_BATCH,
      lengthOf: lengthOfEntry,
      maxInFlight: MAX_IN_FLIGHT,
      splitAbove: 32,
      maxWaiting: MAX_WAITING,
      overflow: tooManyWaiting,
      maxWaitMs: SUBMISSION_TIMEOUT_MS - STATEMENT_MS,
      expired: notInTime,
    });
  }

  /** Writes one job of one of many callers. */
  accept(entry: JobToWrite): Promise<Written> {
    const { writer } = this.#options;
    if (entry.job.dependsOn.length > 0) return writer.writeTogether([entry]).then(([written]) => written as Written);
    const attempt = this.#batcher.add(entry);
    if (entry.job.idempotencyKey === null) return attempt as Promise<Written>;
    return attempt.then((attempted) => (attempted.kind === 'held' ? writer.writeHeld(entry) : attempted));
  }

  async #send(entries: readonly JobToWrite[]): Promise<Attempted[]> {
    const { writer, producers, notify, onAccepted } = this.#options;
    const db = this.#connections.next();
    const lone = loneOf(entries);
    const started = lone === null ? null : await this.#start(db, lone);
    if (started !== null) return [started];
    await writer.stamp(entries);
    let isFollowed = false;
    const written = await writeAndFlush(db, entries, () => {
      // An idle worker claims the job right behind the statement that writes it.
      isFollowed = lone !== null && producers.claimWith(lone.job, (params) => takeJobs(db, params)) !== null;
      if (entries.some(isDueNow)) notify(db, entries.length);
    });
    onAccepted(acceptedJobs(written, entries), { isFollowed });
    return written;
  }

  /** Writes and starts a job with one statement, if a worker here is idle and no job is ahead of it. Null: nothing was written. */
  async #start(db: Queryable, entry: JobToWrite): Promise<Written | null> {
    const { producers, fairQueues } = this.#options;
    if (!isBare(entry) || fairQueues().has(entry.job.queue)) return null;
    const taken = await producers.claimWith(entry.job, (params) => submitStarted(db, entry, params));
    const started = taken?.jobs[0];
    if (started === undefined) return null;
    const at = new Date(started.createdAtMs);
    return { kind: 'accepted', id: entry.id, state: 'scheduled', createdAt: at, scheduledFor: at };
  }

  async idle(): Promise<void> {
    await this.#batcher.idle();
    await this.#options.writer.idle();
  }
}

/** A single job without a key: no other transaction can delay it, so a claim may follow it on the same connection. */
function loneOf(entries: readonly JobToWrite[]): JobToWrite | null {
  const [first, second] = entries;
  return first !== undefined && second === undefined && first.job.idempotencyKey === null ? first : null;
}

const isDueNow = ({ job }: JobToWrite): boolean => job.runAt === null && job.runAfterMs === null;
