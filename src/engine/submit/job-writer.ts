import type pg from 'pg';
import { AppError } from '../../core/errors.ts';
import { lengthOf } from '../../core/payload.ts';
import { inStatements } from '../../ledger/driver/batcher.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { OwnedTransaction } from '../../ledger/driver/owned-transaction.ts';
import { isContended } from '../../ledger/driver/statement.ts';
import { onTransactionEnd } from '../../ledger/driver/transaction-end.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { reserveStamps } from '../../ledger/jobs/reserve-stamps.ts';
import { type Attempted, submitJobs, submitShared, type Written } from '../../ledger/jobs/submit-jobs.ts';
import { type AcceptedJobs, acceptedJobs } from './accepted-jobs.ts';
import { HeldLane } from './held-lane.ts';
import { placeDependents } from './placement.ts';

export const MAX_BATCH = 1_000;
/** How long a transaction of ours waits for a lock before it releases its own locks and starts again. */
const LOCK_MS = 25;

const KEY_HELD = 'Another transaction that is still open uses this idempotency key. Try again when it has ended.';
const ROW_HELD =
  'Another transaction that is still open holds a job or an idempotency key of this submission. Try again when it has ended.';

export const keyHeld = (): AppError => new AppError('UNAVAILABLE', { message: KEY_HELD, retryAfterMs: 1_000 });

export const rowHeld = (cause: unknown): AppError =>
  new AppError('UNAVAILABLE', { message: ROW_HELD, retryAfterMs: 1_000, cause });

export const lengthOfEntry = ({ job: { payload } }: JobToWrite): number => lengthOf(payload);

export type JobWriterOptions = {
  database: Database;
  fairQueues(): ReadonlySet<string>;
  /** Called when accepted jobs are committed, so that idle workers look at once. */
  onAccepted(accepted: AcceptedJobs): void;
};

/** Writes jobs without waiting for a lock that another caller's transaction holds. Jobs that meet such a lock are retried alone. */
export class JobWriter {
  readonly #options: JobWriterOptions;
  readonly #lane = new HeldLane();

  constructor(options: JobWriterOptions) {
    this.#options = options;
  }

  /** Reserves places for jobs of fair queues on our connection, so that no transaction keeps the row that this locks. */
  async stamp(entries: readonly JobToWrite[]): Promise<void> {
    const fair = this.#options.fairQueues();
    if (fair.size === 0) return;
    const stamped = entries.filter(({ job }) => fair.has(job.queue));
    await reserveStamps(this.#options.database.submitting, stamped);
  }

  /** Writes a job whose key another transaction seems to hold, as soon as that transaction has ended. */
  async writeHeld(entry: JobToWrite): Promise<Written> {
    const attempt = () => this.#attempt((client) => submitJobs(client, [entry]));
    const written = await this.#lane.run(entry.orgId, attempt, KEY_HELD);
    this.announce(written, [entry]);
    return written[0] as Written;
  }

  /**
   * Writes entries without dependencies in as many statements as they need. Jobs whose keys are held are left out. With a client
   * the writes belong to its transaction.
   */
  async write(entries: readonly JobToWrite[], client?: pg.ClientBase): Promise<Attempted[]> {
    await this.stamp(entries);
    const db = client ?? this.#options.database.api;
    const written: Attempted[] = [];
    for (const part of inStatements(entries, MAX_BATCH, lengthOfEntry)) written.push(...(await submitShared(db, part)));
    this.announce(written, entries, client);
    return written;
  }

  /** Writes entries without dependencies, each for itself. An entry that cannot be written gets its error. */
  async writeEach(entries: readonly JobToWrite[]): Promise<(Written | AppError)[]> {
    const results: Promise<Written | AppError>[] = [];
    for (const part of inStatements(entries, MAX_BATCH, lengthOfEntry)) {
      const attempted = await this.write(part).catch((error) => {
        if (results.length === 0) throw error;
        return part.map(() => asResult(error));
      });
      for (const [index, each] of attempted.entries())
        results.push(isHeld(each) ? this.writeHeld(part[index] as JobToWrite).catch(asResult) : Promise.resolve(each));
    }
    return Promise.all(results);
  }

  /**
   * Writes entries, some with dependencies, in one transaction: all or none. `check` throws to undo the writes. With a client the
   * transaction is the caller's.
   */
  async writeTogether(
    entries: readonly JobToWrite[],
    client?: pg.ClientBase,
    check?: (written: readonly Written[]) => void,
  ): Promise<Written[]> {
    await this.stamp(entries);
    const parts = inStatements(entries, MAX_BATCH, lengthOfEntry);
    const work = async (db: pg.ClientBase) => {
      await placeDependents(db, entries);
      const written: Written[] = [];
      for (const part of parts) written.push(...(await submitJobs(db, part)));
      check?.(written);
      return written;
    };
    const written = await this.#together({ entries, parts, work, client });
    this.announce(written, entries, client);
    return written;
  }

  #together({ entries, parts, work, client }: Together): Promise<Written[]> {
    if (client !== undefined) return work(client);
    const isOneStatement = parts.length === 1 && entries.every(isUntied);
    if (isOneStatement) return submitJobs(this.#options.database.api, entries);
    return this.transact(entries[0]?.orgId ?? '', work);
  }

  /** Other sessions cannot see jobs of an open transaction, so workers are woken when it ends. */
  announce(
    written: readonly Attempted[],
    entries: readonly JobToWrite[],
    client?: pg.ClientBase | OwnedTransaction,
  ): void {
    const accepted = acceptedJobs(written, entries);
    if (client === undefined) this.#options.onAccepted(accepted);
    else
      onTransactionEnd(client instanceof OwnedTransaction ? client.client : client, () =>
        this.#options.onAccepted(accepted),
      );
  }

  /** Runs the work in a transaction of ours. While another one holds a lock that it needs, it holds none itself and tries again. */
  transact<T>(orgId: string, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return this.#attempt(work).catch((error) => {
      if (!isContended(error)) throw error;
      return this.#lane.run(orgId, () => this.#attempt(work), ROW_HELD);
    });
  }

  #attempt<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return inTransaction(this.#options.database.api, work, { lockTimeoutMs: LOCK_MS });
  }

  idle(): Promise<void> {
    return this.#lane.idle();
  }
}

type Together = {
  entries: readonly JobToWrite[];
  parts: readonly JobToWrite[][];
  work(client: pg.ClientBase): Promise<Written[]>;
  client: pg.ClientBase | undefined;
};

const isUntied = ({ job }: JobToWrite): boolean => job.dependsOn.length === 0 && job.idempotencyKey === null;

const isHeld = (result: Attempted | AppError): result is { kind: 'held' } =>
  !(result instanceof AppError) && result.kind === 'held';

function asResult(error: unknown): AppError {
  if (error instanceof AppError) return error;
  throw error;
}
