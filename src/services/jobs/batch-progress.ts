import { AppError } from '../../core/errors.ts';
import type { Failure } from '../../core/failure.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import { JOB_STATES, type JobState, TERMINAL_STATES } from '../../core/states.ts';
import type { Engine } from '../../engine/engine.ts';
import { type CursorScope, invalidCursor, readPageCursor, writePageCursor } from '../../ledger/driver/page-cursor.ts';
import { sealOf } from '../../ledger/driver/seal.ts';
import { isPassing } from '../../ledger/driver/statement.ts';
import { hasBatch } from '../../ledger/jobs/batches.ts';
import { type BatchCounts, type BatchFailureRow, countBatch, listBatchFailures } from '../../ledger/reads/batch-counts.ts';

/** How far a batch is: exact counts of one moment. The first seven add up to `total`. */
export type BatchProgress = {
  /** How many jobs the batch has. It grows until `isSubmitted`. */
  readonly total: number;
  /** Jobs that have not started, or wait for their next attempt. */
  readonly waiting: number;
  /** Jobs whose handler runs. */
  readonly running: number;
  /** Jobs that completed. */
  readonly completed: number;
  /** Jobs that failed or are dead-lettered. */
  readonly failed: number;
  /** Jobs that were cancelled. */
  readonly cancelled: number;
  /** Jobs that ended and were removed since, because their retention is over. */
  readonly removed: number;
  /** The number of jobs in each state. */
  readonly states: Readonly<Record<JobState, number>>;
  /** Whether all jobs of the batch are submitted. */
  readonly isSubmitted: boolean;
  /** Whether all jobs are submitted and have ended. */
  readonly isDone: boolean;
};

export type BatchRequest = Owner & { id: string };

/** Counts the jobs of a batch. Throws NOT_FOUND if the owner has no such batch. */
export async function readBatchProgress(engine: Engine, { id, ...owner }: BatchRequest): Promise<BatchProgress> {
  const counts = isUuid(id) ? await countBatch(engine.database.api, owner, id) : null;
  if (counts === null) throw noSuchBatch(id);
  return toProgress(counts);
}

export const noSuchBatch = (id: unknown): AppError =>
  new AppError('NOT_FOUND', { message: `Batch ${String(id).slice(0, 100)} does not exist.` });

function toProgress({ total, states, isSubmitted }: BatchCounts): BatchProgress {
  const found = JOB_STATES.reduce((sum, state) => sum + states[state], 0);
  const ended = TERMINAL_STATES.reduce((sum, state) => sum + states[state], 0);
  const { completed, cancelled, running } = states;
  return {
    total,
    waiting: found - ended - running,
    running,
    completed,
    failed: states.failed + states.dead_letter,
    cancelled,
    removed: total - found,
    states,
    isSubmitted,
    isDone: isSubmitted && ended === found,
  };
}

export type WaitForBatchParams = BatchRequest & {
  timeoutMs: number | null;
  signal?: AbortSignal;
  onProgress?(progress: BatchProgress): void;
};

const FIRST_LOOK_MS = 100;
const LONGEST_LOOK_MS = 1_000;
/** Counting takes at most a fifth of the time of one connection, unless a count takes longer than 250 ms. */
const REST = 4;
const OUTAGE_MS = 30_000;

/** Returns the counts of a batch once all its jobs have ended. Calls `onProgress` with the first counts and with each change. */
export async function waitForBatch(engine: Engine, params: WaitForBatchParams): Promise<BatchProgress> {
  const { timeoutMs, signal, onProgress } = params;
  const startedMs = performance.now();
  let known = '';
  let failingSinceMs: number | null = null;
  for (let pauseMs = FIRST_LOOK_MS; ; ) {
    signal?.throwIfAborted();
    const sentMs = performance.now();
    try {
      const progress = await readBatchProgress(engine, params);
      failingSinceMs = null;
      const text = JSON.stringify(progress);
      pauseMs = text === known ? pauseMs * 1.5 : FIRST_LOOK_MS;
      if (text !== known) onProgress?.(progress);
      known = text;
      if (progress.isDone) return progress;
    } catch (error) {
      failingSinceMs ??= sentMs;
      if (!isPassing(error) || performance.now() - failingSinceMs > OUTAGE_MS) throw error;
    }
    const leftMs = timeoutMs === null ? Number.POSITIVE_INFINITY : startedMs + timeoutMs - performance.now();
    if (leftMs <= 0) throw new AppError('TIMED_OUT', { message: `Batch ${params.id} has not ended within ${timeoutMs} ms.` });
    const restMs = Math.max(pauseMs, REST * (performance.now() - sentMs));
    await sleep(Math.min(leftMs, LONGEST_LOOK_MS, restMs), signal);
  }
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const onAbort = () => resolve();
  signal?.addEventListener('abort', onAbort, { once: true });
  return promise.finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  });
}

/** A job of a batch that ended without completing. */
export type BatchFailure = {
  /** The id of the job. */
  readonly jobId: string;
  /** The type of the job. */
  readonly type: string;
  /** `failed`, `dead_letter` or `cancelled`. */
  readonly state: JobState;
  /** Its last failure. Null if it never failed. */
  readonly error: Failure | null;
};

const FAILURES_PER_READ = 1_000;

/** Yields the jobs of a batch that ended without completing, in the order of their submission. */
export async function* batchFailures(engine: Engine, { id, ...owner }: BatchRequest): AsyncGenerator<BatchFailure, void> {
  for (let afterSeq = 0; ; ) {
    const rows = await listBatchFailures(engine.database.reads.of(owner.orgId), owner, { id, afterSeq, limit: FAILURES_PER_READ });
    for (const row of rows) yield toFailure(row);
    if (rows.length < FAILURES_PER_READ) return;
    afterSeq = rows.at(-1)?.seq ?? afterSeq;
  }
}

const toFailure = ({ id, job_type: type, state, last_error }: BatchFailureRow): BatchFailure => ({
  jobId: id,
  type,
  state,
  error: last_error === null ? null : (JSON.parse(last_error) as Failure),
});

export type FailuresPageParams = BatchRequest & { cursor: string | null; limit: number };

/** Returns a page of the jobs of a batch that ended without completing. Throws NOT_FOUND if the owner has no such batch. */
export async function batchFailuresPage(
  engine: Engine,
  { id: given, cursor, limit, ...owner }: FailuresPageParams,
): Promise<{ items: BatchFailure[]; nextCursor: string | null }> {
  const { api } = engine.database;
  const reads = engine.database.reads.of(owner.orgId);
  const id = given.toLowerCase();
  if (!isUuid(id) || !(await hasBatch(reads, owner, id))) throw noSuchBatch(given);
  const seal = await sealOf(api);
  const scope: CursorScope = { list: 'BATCH_FAILURES', orgId: owner.orgId, filter: { id } };
  const afterSeq = cursor === null ? 0 : readPageCursor(seal, scope, cursor)[0];
  if (typeof afterSeq !== 'number') throw invalidCursor();
  const rows = await listBatchFailures(reads, owner, { id, afterSeq, limit: limit + 1 });
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const nextCursor = rows.length > limit && last !== undefined ? writePageCursor(seal, scope, [last.seq]) : null;
  return { items: shown.map(toFailure), nextCursor };
}
