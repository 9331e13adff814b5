import { type DurationInput, durationMs } from '../core/duration.ts';
import { checkMembers, membersOf } from '../core/known-members.ts';
import { wholeOrg } from '../core/owner.ts';
import type { Submission } from '../core/submission.ts';
import type { Engine } from '../engine/engine.ts';
import { type BatchFailure, type BatchProgress, batchFailures, readBatchProgress, waitForBatch } from '../services/jobs/batch-progress.ts';
import { submitBatch } from '../services/jobs/submit-batch.ts';
import type { OpenCalls } from './open-calls.ts';
import type { JobTypes, SubmissionOf } from './typed-jobs.ts';

/** Options of `batches.submit`. */
export type SubmitBatchOptions = {
  /** The id of the batch, a UUID. After a crash, submit the same jobs with the same id: only those that are missing are submitted. */
  id?: string;
  /** Stops the submission before its next piece. */
  signal?: AbortSignal;
};

/** How to wait for a batch. */
export type WaitForBatchOptions = {
  /** Throws TIMED_OUT after this time. By default there is no limit. */
  timeout?: DurationInput;
  /** Ends the wait. */
  signal?: AbortSignal;
  /** Called with the first counts and with each change of them. */
  onProgress?(progress: BatchProgress): void;
};

/** The result of a batch whose jobs have all ended. */
export type BatchOutcome = BatchProgress & {
  /** The ids of jobs that failed, are dead-lettered or were cancelled: at most 1000. `failures()` returns all of them. */
  readonly failedIds: readonly string[];
};

const SUBMIT_OPTIONS = membersOf<SubmitBatchOptions>({ id: true, signal: true });
const WAIT_OPTIONS = membersOf<WaitForBatchOptions>({ timeout: true, signal: true, onProgress: true });
const MAX_FAILED_IDS = 1_000;

type Parts = { engine: Engine; orgId: string; calls: OpenCalls };

/** Jobs that were submitted together. Any process can open a batch by its id. */
export class Batch {
  /** The id of the batch. */
  readonly id: string;
  readonly #parts: Parts;

  constructor(id: string, parts: Parts) {
    this.id = id;
    this.#parts = parts;
  }

  /** Returns exact counts of this moment. */
  progress(): Promise<BatchProgress> {
    const { engine, orgId, calls } = this.#parts;
    return calls.run(() => readBatchProgress(engine, { ...wholeOrg(orgId), id: this.id }));
  }

  /** Returns the counts once all jobs are submitted and have ended, in whatever final state. */
  wait(options: WaitForBatchOptions = {}): Promise<BatchOutcome> {
    const { engine, orgId, calls } = this.#parts;
    return calls.run(async () => {
      checkMembers(options, WAIT_OPTIONS);
      const { timeout, signal, onProgress } = options;
      const timeoutMs = timeout === undefined ? null : durationMs(timeout, 'timeout');
      const progress = await waitForBatch(engine, {
        ...wholeOrg(orgId),
        id: this.id,
        timeoutMs,
        signal: calls.signalWith(signal),
        onProgress,
      });
      return { ...progress, failedIds: await this.#failedIds(progress) };
    });
  }

  /** Iterates over the jobs that failed, are dead-lettered or were cancelled, in the order of their submission. */
  async *failures(): AsyncGenerator<BatchFailure, void> {
    const { engine, orgId, calls } = this.#parts;
    yield* calls.iterate(batchFailures(engine, { ...wholeOrg(orgId), id: this.id }));
  }

  async #failedIds({ failed, cancelled }: BatchProgress): Promise<string[]> {
    const ids: string[] = [];
    if (failed + cancelled === 0) return ids;
    for await (const { jobId } of batchFailures(this.#parts.engine, { ...wholeOrg(this.#parts.orgId), id: this.id })) {
      if (ids.push(jobId) === MAX_FAILED_IDS) break;
    }
    return ids;
  }
}

/** Submits batches of any size, and opens them again. */
export class Batches<Jobs extends JobTypes = JobTypes> {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Submits any number of jobs, from a list or an async iterable, and returns their batch. Jobs are submitted in pieces of at most 1000, and
   * the next ones are taken from the source when a piece is stored. A job that is refused throws, and the pieces before it stay submitted.
   */
  submit(jobs: Iterable<SubmissionOf<Jobs>> | AsyncIterable<SubmissionOf<Jobs>>, options: SubmitBatchOptions = {}): Promise<Batch> {
    const { engine, orgId, calls } = this.#parts;
    return calls.run(async () => {
      checkMembers(options, SUBMIT_OPTIONS);
      const signal = calls.signalWith(options.signal);
      const submissions = jobs as Iterable<Submission>;
      return new Batch(await submitBatch(engine, { orgId, submissions, actor: null, id: options.id, signal }), this.#parts);
    });
  }

  /** Opens a batch by its id, also one that another process submitted. Throws NOT_FOUND if the org has no such batch. */
  open(id: string): Promise<Batch> {
    const { engine, orgId, calls } = this.#parts;
    return calls.run(async () => {
      await readBatchProgress(engine, { ...wholeOrg(orgId), id });
      return new Batch(id, this.#parts);
    });
  }
}
