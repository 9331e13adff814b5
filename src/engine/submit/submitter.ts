import { AppError } from '../../core/errors.ts';
import { SUBMISSION_TIMEOUT_MS } from '../../core/policy.ts';
import { claimAndStart } from '../../ledger/attempts/claim-and-start.ts';
import { noteBatch } from '../../ledger/driver/batch-sizes.ts';
import { type Batcher, createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { Pipeline } from '../../ledger/driver/pipeline.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { flushLog } from '../../ledger/history/flush-log.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { isBare, submitNone } from '../../ledger/jobs/submit-alike.ts';
import { type Attempted, isKeyed, submitShared, submitUnflushed, type Written } from '../../ledger/jobs/submit-jobs.ts';
import { submitStarted } from '../../ledger/jobs/submit-started.ts';
import { uniqueKeyOf } from '../../ledger/jobs/unique-keys.ts';
import type { Producers } from '../work/producers.ts';
import { type AcceptedJobs, acceptedJobs, type JobWriter, lengthOfEntry, MAX_BATCH } from './job-writer.ts';
import { KeyTurns } from './key-turns.ts';

export type SubmitterOptions = {
  database: Database;
  writer: JobWriter;
  /** An idle producer starts a lone job immediately. */
  producers: Pick<Producers, 'claimWith'>;
  /** Whether this process may keep a second session for submissions. */
  hasSpareSession(): boolean;
  /** Hints to other processes that jobs may start, on the connection and right behind the statement that writes them. */
  hintReady(db: Queryable, jobs: number): void;
  /** `isFollowed`: a claim of this process already follows the jobs. */
  onAccepted(accepted: AcceptedJobs, how: { isFollowed: boolean }): void;
};

const MAX_WAITING = 20_000;
const MAX_IN_FLIGHT = 3;
/** The longest time for connecting and writing, so that a caller has its result within the submission timeout. */
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
  readonly #uniqueTurns = new KeyTurns({
    maxWaiting: MAX_WAITING,
    overflow: tooManyWaiting,
    maxWaitMs: SUBMISSION_TIMEOUT_MS - STATEMENT_MS,
    expired: notInTime,
  });

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

  accept(entry: JobToWrite): Promise<Written> {
    const { writer } = this.#options;
    if (entry.job.dependsOn.length > 0) return writer.writeTogether([entry]).then(([written]) => written as Written);
    const uniqueKey = uniqueKeyOf(entry);
    // A statement does not see the jobs that it writes itself, so it contains a unique key at most once.
    if (uniqueKey !== null) return this.#uniqueTurns.run(uniqueKey, () => this.#acceptKeyed(entry));
    if (entry.job.idempotencyKey !== null) return this.#acceptKeyed(entry);
    return this.#batcher.add(entry) as Promise<Written>;
  }

  #acceptKeyed(entry: JobToWrite): Promise<Written> {
    const attempt = this.#batcher.add(entry);
    return attempt.then((attempted) => (attempted.kind === 'held' ? this.#options.writer.writeHeld(entry) : attempted));
  }

  async #send(entries: readonly JobToWrite[]): Promise<Attempted[]> {
    const { producers, hintReady, onAccepted } = this.#options;
    const db = this.#connections.next();
    noteBatch('submit', entries.length);
    const lone = loneOf(entries);
    const started = lone === null ? null : await this.#start(db, lone);
    if (started !== null) return [started];
    let isFollowed = false;
    const written = await writeAndFlush(db, entries, () => {
      // An idle worker claims the job right behind the statement that writes it.
      isFollowed = lone !== null && producers.claimWith(lone.job, (params) => claimAndStart(db, params)) !== null;
      if (entries.some(isDueNow)) hintReady(db, entries.length);
    });
    onAccepted(acceptedJobs(written, entries), { isFollowed });
    return written;
  }

  /**
   * Writes and starts a job with one statement, if a worker here is idle and no job is ahead of it. Returns null if
   * nothing was written.
   */
  async #start(db: Queryable, entry: JobToWrite): Promise<Written | null> {
    if (!isBare(entry)) return null;
    const claimed = await this.#options.producers.claimWith(entry.job, (params) => submitStarted(db, entry, params));
    const started = claimed?.jobs[0];
    if (started === undefined) return null;
    const at = new Date(started.createdAtMs);
    return { kind: 'accepted', id: entry.id, state: 'scheduled', createdAt: at, scheduledFor: at };
  }

  async idle(): Promise<void> {
    await this.#uniqueTurns.idle();
    await this.#batcher.idle();
    await this.#options.writer.idle();
  }
}

/** A single job without a key or a limit. No other transaction can delay it, so a claim may follow it on the same connection. */
function loneOf(entries: readonly JobToWrite[]): JobToWrite | null {
  const [first, second] = entries;
  return first !== undefined && second === undefined && !isKeyed(first) && first.limitId === undefined ? first : null;
}

const isDueNow = ({ job, limitId }: JobToWrite): boolean => job.runAt === null && job.runAfterMs === null && limitId === undefined;

/** Up to this many jobs are flushed by a separate statement. For larger writes, that statement would cost too much. */
const FEW = 8;

/**
 * Writes jobs and returns when they are durable. If they are few, other processes see them before they are flushed to
 * disk. `followUp` sends further statements on the same connection, right behind the write.
 */
async function writeAndFlush(db: Queryable, entries: readonly JobToWrite[], followUp: () => void): Promise<Attempted[]> {
  if (entries.length > FEW) {
    const writing = submitShared(db, entries);
    followUp();
    return writing;
  }
  const writing = submitUnflushed(db, entries);
  followUp();
  const flushing = flushLog(db);
  // If both fail, the error of the write is the one that counts.
  flushing.catch(() => {});
  const written = await writing;
  await flushing;
  return written ?? submitShared(db, entries);
}

/** After this many statements that found another one in flight, opening a second connection pays off. */
const BUSY_STATEMENTS = 500;

/**
 * Chooses the connection for each statement of the submitter. Under lasting load a second connection writes while the
 * first one waits for a flush of the log: 64 callers, warm, 41 300 jobs/s on one and 48 900 on two. Opening it in the
 * middle of a short burst costs more than it gains (33 000 instead of 38 000 jobs/s).
 */
class SubmitConnections {
  readonly #options: Pick<SubmitterOptions, 'database' | 'hasSpareSession'>;
  #busy = 0;
  #isReady = false;

  constructor(options: Pick<SubmitterOptions, 'database' | 'hasSpareSession'>) {
    this.#options = options;
  }

  next(): Pipeline {
    const { submitting, submittingMore } = this.#options.database;
    if (submitting.underWay === 0) return submitting;
    if (!this.#options.hasSpareSession()) {
      this.#isReady = false;
      return submitting;
    }
    if (++this.#busy === BUSY_STATEMENTS) void this.#prepare(submittingMore);
    return this.#isReady && submittingMore.underWay < submitting.underWay ? submittingMore : submitting;
  }

  /** The first statement opens the connection and is planned, which takes time. So it carries no job. */
  async #prepare(connection: Pipeline): Promise<void> {
    try {
      await submitNone(connection);
      this.#isReady = true;
    } catch {
      // The first connection does all the work until the next burst.
      this.#busy = 0;
    }
  }
}
