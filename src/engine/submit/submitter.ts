import type pg from 'pg';
import { MAX_CHILDREN } from '../../core/dependencies.ts';
import { AppError, type Issue } from '../../core/errors.ts';
import { type Policy, SUBMISSION_TIMEOUT_MS } from '../../core/policy.ts';
import {
  DEFAULT_LIMITS,
  type NewJob,
  normalizeSubmission,
  type Submission,
  type SubmissionLimits,
} from '../../core/submission.ts';
import type { QueueNames } from '../../core/submission-fields.ts';
import type { RegistrationPolicy } from '../../core/submission-policy.ts';
import { type Taken, takeJobs } from '../../ledger/attempts/take-jobs.ts';
import { type Batcher, createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { OwnedTransaction } from '../../ledger/driver/owned-transaction.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { lockParent, type Origin } from '../../ledger/jobs/guard-parent.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { isBare } from '../../ledger/jobs/submit-alike.ts';
import { type Attempted, submitJobs, type Written } from '../../ledger/jobs/submit-jobs.ts';
import { submitStarted } from '../../ledger/jobs/submit-started.ts';
import { CallbackOrgs } from '../../ledger/webhooks/callback-orgs.ts';
import type { OfferedJob } from '../work/producer.ts';
import type { Take } from '../work/taking.ts';
import { JobWriter, lengthOfEntry, MAX_BATCH } from './job-writer.ts';
import { newJobId } from './new-job-id.ts';
import { type ParentLease, placeChild } from './placement.ts';
import { SubmitConnections } from './submit-connections.ts';
import { writeAndFlush } from './write-and-flush.ts';

export type SubmitterOptions = {
  database: Database;
  policies: PolicyCache;
  profile: Policy;
  limits?: SubmissionLimits;
  registrationOf(type: string): RegistrationPolicy | undefined;
  fairQueues(): ReadonlySet<string>;
  /** A queue that nobody heard of yet becomes known before its first job. */
  ensureQueue(name: string): Promise<void>;
  queues: QueueNames;
  /** Whether this process may keep a second session for submissions. */
  hasSpareSession(): boolean;
  /** A statement that may bring the job to a worker here that has nothing else to do. Null: there is none, and it is not sent. */
  offer(job: OfferedJob, take: Take): Promise<Taken> | null;
  /** Jobs that may start at once are on their way over `db`: other processes are notified right behind them. */
  announce(db: Queryable, jobs: number): void;
  /** Called with what was accepted, so that idle workers look at once. */
  onAccepted(accepted: {
    written: readonly Attempted[];
    entries: readonly JobToWrite[];
    isFollowed: boolean;
    isAnnounced?: boolean;
  }): void;
};

/** What a door settles for its callers. */
export type SubmitOptions = {
  /** The policy as it stands: what handlers registered for the type says nothing. */
  profile?: Policy;
  /** Of the request as it was made, where the submission is not what was asked for. */
  fingerprint?: string;
  /** Made by the door; a request that was given its id here has the same. */
  id?: string;
  /** Of the request, where that came with an id of its own. */
  requestId?: string;
  /** Whoever asks may name a queue that there is, and introduces none. */
  knownQueuesOnly?: boolean;
};

export type Prepared = { ok: true; entry: JobToWrite } | { ok: false; issues: readonly Issue[] };
export type Submitted = Written | { kind: 'invalid'; issues: readonly Issue[] };

/** A child to be written; it may take the priority of its parent. */
export type Spawned = { entry: JobToWrite; inheritsPriority: boolean };
export type SpawnAnswer = { kind: 'written'; written: Written } | { kind: 'lost' } | { kind: 'transaction_ended' };

const NO_OPTIONS: SubmitOptions = Object.freeze({});
const MAX_WAITING = 20_000;
const MAX_IN_FLIGHT = 3;
/** What connecting and writing may take at most, so that a caller has its answer within the submission timeout. */
const STATEMENT_MS = 10_000;

/** Accepts jobs: checks them, places them among others, and writes them, many callers to a statement. */
export class Submitter {
  readonly #options: SubmitterOptions;
  readonly #batcher: Batcher<JobToWrite, Attempted>;
  readonly #writer: JobWriter;
  readonly #connections: SubmitConnections;
  /** An org is known to use callbacks before its first job with one. */
  readonly callbackOrgs: CallbackOrgs;

  constructor(options: SubmitterOptions) {
    this.#options = options;
    this.#writer = new JobWriter(options);
    this.#connections = new SubmitConnections(options);
    this.callbackOrgs = new CallbackOrgs(options.database.api);
    this.#batcher = createBatcher<JobToWrite, Attempted>({
      send: (entries) => this.#send(entries),
      maxItems: MAX_BATCH,
      lengthOf: lengthOfEntry,
      maxInFlight: MAX_IN_FLIGHT,
      splitAbove: 32,
      maxWaiting: MAX_WAITING,
      overflow: () =>
        new AppError('QUOTA_EXCEEDED', {
          message: `More than ${MAX_WAITING} submissions wait to be written.`,
          retryAfterMs: 1_000,
        }),
      maxWaitMs: SUBMISSION_TIMEOUT_MS - STATEMENT_MS,
      expired: () =>
        new AppError('UNAVAILABLE', { message: 'The database did not take the job in time.', retryAfterMs: 1_000 }),
    });
  }

  /** Checks one submission and gives it its id and policy. Answers at once when its policy and queue were met before. */
  prepare(
    orgId: string,
    submission: Submission,
    actor: string | null,
    options: SubmitOptions = NO_OPTIONS,
  ): Prepared | Promise<Prepared> {
    const normalized = this.#normalize(submission, options);
    if (!normalized.ok) return normalized;
    const { job } = normalized;
    const policyId = this.#options.policies.known(job.policy);
    const entry = { id: options.id ?? newJobId(), orgId, job, policyId: policyId ?? 0, actor, placement: null };
    const isCalledBack = job.callbackUrl !== null && !this.callbackOrgs.has(orgId);
    if (policyId === undefined || isCalledBack || !this.#options.queues.has(job.queue)) return this.#introduce(entry);
    return { ok: true, entry };
  }

  async #introduce(entry: JobToWrite): Promise<Prepared> {
    // Asked for at once: those who come in one batch share a statement for each kind of thing that is new.
    const [policyId] = await Promise.all([
      this.#options.policies.idOf(entry.job.policy),
      this.#options.ensureQueue(entry.job.queue),
    ]);
    if (entry.job.callbackUrl !== null) await this.callbackOrgs.ensure(entry.orgId);
    return { ok: true, entry: { ...entry, policyId } };
  }

  #normalize(submission: Submission, options: SubmitOptions) {
    const { registrationOf, limits = DEFAULT_LIMITS } = this.#options;
    const { profile = this.#options.profile, fingerprint, requestId } = options;
    const registration =
      options.profile === undefined && typeof submission?.type === 'string'
        ? registrationOf(submission.type)
        : undefined;
    return normalizeSubmission(submission, {
      nowMs: Date.now(),
      registration,
      limits,
      profile,
      fingerprint,
      requestId,
      queues: options.knownQueuesOnly === true ? this.#options.queues : undefined,
    });
  }

  /** One job from one of many callers. */
  submit(orgId: string, submission: Submission, actor: string | null, options?: SubmitOptions): Promise<Submitted> {
    const prepared = this.prepare(orgId, submission, actor, options);
    return prepared instanceof Promise ? prepared.then((each) => this.#write(each)) : this.#write(prepared);
  }

  #write(prepared: Prepared): Promise<Submitted> {
    if (!prepared.ok) return Promise.resolve({ kind: 'invalid', issues: prepared.issues });
    return this.accept(prepared.entry);
  }

  /** The same of one that was prepared. */
  accept(entry: JobToWrite): Promise<Written> {
    if (entry.job.dependsOn.length > 0) return this.writePlaced([entry]).then(([written]) => written as Written);
    const attempt = this.#batcher.add(entry);
    if (entry.job.idempotencyKey === null) return attempt as Promise<Written>;
    return attempt.then((attempted) => (attempted.kind === 'held' ? this.#writer.writeHeld(entry) : attempted));
  }

  async #send(entries: readonly JobToWrite[]): Promise<Attempted[]> {
    const db = this.#connections.next();
    const lone = loneOf(entries);
    const started = lone === null ? null : await this.#start(db, lone);
    if (started !== null) return [started];
    await this.#writer.stamp(entries);
    let isFollowed = false;
    const written = await writeAndFlush(db, entries, () => {
      // A worker that idles looks for it right behind the statement that writes it.
      isFollowed = lone !== null && this.#options.offer(lone.job, (params) => takeJobs(db, params)) !== null;
      if (entries.some(isDueNow)) this.#options.announce(db, entries.length);
    });
    this.#options.onAccepted({ written, entries, isFollowed, isAnnounced: true });
    return written;
  }

  /** Has a job written by a statement that starts it, too, if a worker here idles and nothing stands in line. Null: it is not written. */
  async #start(db: Queryable, entry: JobToWrite): Promise<Written | null> {
    if (!isBare(entry) || this.#options.fairQueues().has(entry.job.queue)) return null;
    const taken = await this.#options.offer(entry.job, (params) => submitStarted(db, entry, params));
    const started = taken?.jobs[0];
    if (started === undefined) return null;
    const at = new Date(started.createdAtMs);
    return { kind: 'accepted', id: entry.id, state: 'scheduled', createdAt: at, scheduledFor: at };
  }

  /** As `JobWriter.write`. */
  write(db: Queryable, entries: readonly JobToWrite[]): Promise<Attempted[]> {
    return this.#writer.write(db, entries);
  }

  /** As `JobWriter.writeEach`. */
  writeEach(entries: readonly JobToWrite[]): Promise<(Written | AppError)[]> {
    return this.#writer.writeEach(entries);
  }

  /** As `JobWriter.writeTogether`. */
  writePlaced(
    entries: readonly JobToWrite[],
    client?: pg.ClientBase,
    check?: (written: readonly Written[]) => void,
  ): Promise<Written[]> {
    return this.#writer.writeTogether(entries, client, check);
  }

  /** Writes a child of a running job, fenced by that job's lease and, if it has one, in `transaction`. */
  async spawn(
    parent: ParentLease,
    spawned: Spawned,
    transaction: OwnedTransaction | null = null,
  ): Promise<SpawnAnswer> {
    const { entry } = spawned;
    await this.#writer.stamp([entry]);
    const answer =
      transaction === null
        ? await this.#writer.transact(entry.orgId, (client) => this.#spawnIn(client, parent, spawned))
        : await transaction.inTurn(() => this.#spawnIn(transaction, parent, spawned));
    if (answer.kind === 'written')
      this.#options.onAccepted({ written: [answer.written], entries: [entry], isFollowed: false });
    return answer;
  }

  async #spawnIn(
    client: pg.ClientBase | OwnedTransaction,
    parent: ParentLease,
    spawned: Spawned,
  ): Promise<SpawnAnswer> {
    const own = client instanceof OwnedTransaction ? client : null;
    const guard = await lockParent(client, parent, own?.id ?? null);
    if (!guard.landed) return { kind: guard.transactionEnded ? 'transaction_ended' : 'lost' };
    const write = async (): Promise<SpawnAnswer> => {
      const { entry, inheritsPriority } = spawned;
      entry.job = inherit(entry.job, guard.origin);
      await placeChild(client, entry, { ...guard, parent, inheritsPriority });
      const [child] = await submitJobs(client, [entry]);
      // Thrown, it takes the child back. A repeat of a spawn brings no child and is not counted.
      if (child?.kind === 'accepted' && guard.children >= MAX_CHILDREN)
        throw refusal('spawn', 'TOO_MANY_CHILDREN', `An attempt may spawn at most ${MAX_CHILDREN} jobs.`);
      return { kind: 'written', written: child as Written };
    };
    return own === null ? write() : own.withSavepoint(write);
  }

  async idle(): Promise<void> {
    await this.#batcher.idle();
    await this.#writer.idle();
  }
}

/** A single job that no key can hold up: whatever follows on its connection comes at once. */
function loneOf(entries: readonly JobToWrite[]): JobToWrite | null {
  const [first, second] = entries;
  return first !== undefined && second === undefined && first.job.idempotencyKey === null ? first : null;
}

const isDueNow = ({ job }: JobToWrite): boolean => job.runAt === null && job.runAfterMs === null;

/** A child belongs to the request, the project and the trace of its parent. */
function inherit(job: NewJob, origin: Origin): NewJob {
  const { envelope } = job;
  return {
    ...job,
    correlationId: job.correlationId ?? origin.correlationId,
    envelope: {
      category: envelope?.category ?? null,
      projectId: envelope?.projectId ?? origin.projectId,
      traceparent: envelope?.traceparent ?? origin.traceparent,
      requestId: origin.requestId,
    },
  };
}

const refusal = (field: string, code: string, message: string) =>
  new AppError('INVALID_REQUEST', { message, details: [{ field, code, message }] });
