import type pg from 'pg';
import { AppError } from '../../core/errors.ts';
import { lengthOf } from '../../core/payload.ts';
import { inStatements } from '../../ledger/driver/batcher.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { OwnedTransaction } from '../../ledger/driver/owned-transaction.ts';
import { isContended, type Queryable } from '../../ledger/driver/statement.ts';
import { onTransactionEnd } from '../../ledger/driver/transaction-end.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { type Attempted, isKeyed, submitJobs, submitShared, type Written } from '../../ledger/jobs/submit-jobs.ts';
import { apartByUniqueKey, uniqueKeyOf } from '../../ledger/jobs/unique-keys.ts';
import { LargeWrites } from './large-writes.ts';
import { LockRetries } from './lock-retries.ts';
import { placeDependents } from './placement.ts';

export const MAX_BATCH = 1_000;
/** How long our transaction waits for a lock before it releases its own locks and starts again. */
const LOCK_MS = 25;

const KEY_HELD = 'Another transaction that is still open uses this idempotency key or unique key. Try again when it has ended.';
const ROW_HELD = 'Another transaction that is still open holds a job or a key of this submission. Try again when it has ended.';

export const keyHeld = (): AppError => new AppError('UNAVAILABLE', { message: KEY_HELD, retryAfterMs: 1_000 });

export const rowHeld = (cause: unknown): AppError => new AppError('UNAVAILABLE', { message: ROW_HELD, retryAfterMs: 1_000, cause });

export const lengthOfEntry = ({ job: { payload } }: JobToWrite): number => lengthOf(payload);

/** What the written jobs wait for. It decides which parts are woken. */
export type AcceptedJobs = {
  /** The types of jobs that may start now. */
  readonly readyTypes: ReadonlySet<string>;
  /** The limits of jobs that may start as soon as they get a grant. */
  readonly limitIds: ReadonlySet<number>;
  /** Some jobs wait until they are due. */
  readonly isTimed: boolean;
  /** Some jobs wait for other jobs. */
  readonly isPending: boolean;
  /** How many submissions returned the job of an earlier one. */
  readonly duplicates: number;
};

export function acceptedJobs(written: readonly Attempted[], entries: readonly JobToWrite[]): AcceptedJobs {
  const readyTypes = new Set<string>();
  const limitIds = new Set<number>();
  let isTimed = false;
  let isPending = false;
  let duplicates = 0;
  for (const [index, each] of written.entries()) {
    const { job, limitId } = entries[index] as JobToWrite;
    // The job of an earlier submission may start sooner than before.
    if (each.kind === 'updated' && job.unique?.onConflict === 'debounce') isTimed = true;
    if (each.kind === 'duplicate' && each.sameRequest) duplicates++;
    if (each.kind !== 'accepted') continue;
    if (each.state === 'scheduled' && limitId !== undefined) limitIds.add(limitId);
    else if (each.state === 'scheduled') readyTypes.add(job.type);
    else if (each.state === 'delayed') isTimed = true;
    else isPending = true;
  }
  return { readyTypes, limitIds, isTimed, isPending, duplicates };
}

export type JobWriterOptions = {
  database: Database;
  /** Called when accepted jobs are committed, so that idle workers claim them immediately. */
  onAccepted(accepted: AcceptedJobs): void;
  /** How long a job that meets a lock is retried. A test that holds the lock by itself must not lose to a slow machine. */
  patienceMs?: number;
};

/** Writes jobs without waiting for locks that another caller's transaction holds. Jobs that meet such a lock are retried separately. */
export class JobWriter {
  readonly #options: JobWriterOptions;
  readonly #lockRetries: LockRetries;
  readonly #largeWrites = new LargeWrites();

  constructor(options: JobWriterOptions) {
    this.#options = options;
    this.#lockRetries = new LockRetries(options.patienceMs === undefined ? {} : { patienceMs: options.patienceMs });
  }

  /** Writes a job whose key another transaction seems to hold, as soon as that transaction has ended. */
  async writeHeld(entry: JobToWrite): Promise<Written> {
    const write = () => this.#tryOnce((client) => submitJobs(client, [entry]));
    const written = await this.#lockRetries.run(entry.orgId, write, KEY_HELD);
    this.reportAccepted(written, [entry]);
    return written[0] as Written;
  }

  /**
   * Writes entries without dependencies in as many statements as they need. Skips jobs whose keys are held. With a
   * client, the writes belong to its transaction.
   */
  async write(entries: readonly JobToWrite[], client?: Queryable): Promise<Attempted[]> {
    const db = client ?? this.#options.database.api;
    const written: Attempted[] = [];
    for (const part of partsOf(entries)) written.push(...(await submitShared(db, part)));
    this.reportAccepted(written, entries, client);
    return written;
  }

  /** Writes entries without dependencies independently. An entry that cannot be written gets its error. */
  async writeEach(entries: readonly JobToWrite[]): Promise<(Written | AppError)[]> {
    const results = new Map<JobToWrite, Promise<Written | AppError>>();
    /** By unique key, the newest job that waits for another transaction. Later jobs with the key come after it. */
    const ahead = new Map<string, Promise<Written | AppError>>();
    for (const part of partsOf(entries)) {
      const free = part.filter((entry) => !ahead.has(uniqueKeyOf(entry) ?? ''));
      const attempted = await this.write(free).catch((error) => {
        if (results.size === 0) throw error;
        return free.map(() => asResult(error));
      });
      for (const [index, entry] of free.entries()) {
        const each = attempted[index] as Attempted | AppError;
        results.set(entry, isHeld(each) ? this.#writeBehind(ahead, entry) : Promise.resolve(each));
      }
      for (const entry of part) if (!results.has(entry)) results.set(entry, this.#writeBehind(ahead, entry));
    }
    return Promise.all(entries.map((entry) => results.get(entry) as Promise<Written | AppError>));
  }

  #writeBehind(ahead: Map<string, Promise<Written | AppError>>, entry: JobToWrite): Promise<Written | AppError> {
    const key = uniqueKeyOf(entry);
    const write = () => this.writeHeld(entry).catch(asResult);
    const before = key === null ? undefined : ahead.get(key);
    const result = before === undefined ? write() : before.then((first) => (first instanceof AppError ? first : write()));
    if (key !== null) ahead.set(key, result);
    return result;
  }

  /**
   * Writes all entries, some with dependencies, in one transaction, or none. `check` may throw to undo the writes. With
   * a client, the writes belong to its transaction.
   */
  async writeTogether(
    entries: readonly JobToWrite[],
    client?: Queryable,
    check?: (written: readonly Written[]) => void,
  ): Promise<Written[]> {
    const parts = partsOf(entries);
    const work = async (db: Queryable) => {
      await placeDependents(db, entries);
      const written: Written[] = [];
      for (const part of parts) written.push(...(await submitJobs(db, part)));
      check?.(written);
      return written;
    };
    const written = await this.#together({ entries, parts, work, client });
    this.reportAccepted(written, entries, client);
    return written;
  }

  #together({ entries, parts, work, client }: Together): Promise<Written[]> {
    if (client !== undefined) return work(client);
    const isOneStatement = parts.length === 1 && entries.every(isUntied);
    if (isOneStatement) return submitJobs(this.#options.database.api, entries);
    return this.transact(entries[0]?.orgId ?? '', work);
  }

  /** Other sessions cannot see the jobs of an open transaction, so workers are woken when it ends. */
  reportAccepted(written: readonly Attempted[], entries: readonly JobToWrite[], client?: Queryable | OwnedTransaction): void {
    const accepted = acceptedJobs(written, entries);
    if (client === undefined) this.#options.onAccepted(accepted);
    else onTransactionEnd(client instanceof OwnedTransaction ? client.client : client, () => this.#options.onAccepted(accepted));
  }

  /**
   * Runs the work in a separate transaction. If it meets a lock, it rolls back and retries, and holds no lock while it waits. `isLarge`: it
   * writes hundreds of rows, and waits for its turn.
   */
  transact<T>(orgId: string, work: (client: pg.PoolClient) => Promise<T>, { isLarge = false } = {}): Promise<T> {
    const tryOnce = () => (isLarge ? this.#largeWrites.run(orgId, () => this.#tryOnce(work)) : this.#tryOnce(work));
    return tryOnce().catch((error) => {
      if (!isContended(error)) throw error;
      return this.#lockRetries.run(orgId, tryOnce, ROW_HELD);
    });
  }

  #tryOnce<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return inTransaction(this.#options.database.api, work, { lockTimeoutMs: LOCK_MS });
  }

  idle(): Promise<void> {
    return this.#lockRetries.idle();
  }
}

type Together = {
  entries: readonly JobToWrite[];
  parts: readonly JobToWrite[][];
  work(client: Queryable): Promise<Written[]>;
  client: Queryable | undefined;
};

const isUntied = (entry: JobToWrite): boolean => entry.job.dependsOn.length === 0 && !isKeyed(entry);

/** The entries of each statement. */
const partsOf = (entries: readonly JobToWrite[]): JobToWrite[][] =>
  inStatements(entries, MAX_BATCH, lengthOfEntry).flatMap((part) => apartByUniqueKey(part));

const isHeld = (result: Attempted | AppError): result is { kind: 'held' } => !(result instanceof AppError) && result.kind === 'held';

function asResult(error: unknown): AppError {
  if (error instanceof AppError) return error;
  throw error;
}
