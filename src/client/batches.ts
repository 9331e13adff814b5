import type { Batch, BatchFailure, BatchFailures, JobSubmission } from './api-types.ts';
import { lookUntil } from './look-until.ts';
import { allPages } from './pages.ts';
import type { CallOptions, Transport } from './transport.ts';
import type { WaitOptions } from './wait-for-job.ts';

/** How to submit a batch. */
export type SubmitBatchOptions = CallOptions & {
  /** The id of the batch, a UUID. After a crash, submit the same jobs with the same id: only those that are missing are submitted. */
  id?: string;
};

/** How to wait for a batch. */
export type WaitForBatchOptions = WaitOptions & {
  /** Called with the first counts and with each change of them. */
  onProgress?(batch: Batch): void;
};

/** A piece is one request. */
const MAX_JOBS = 1_000;
const MAX_CHARACTERS = 4 * 1_048_576;

/** Batches of any size. Members are spelled as on the wire. */
export class ClientBatches {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Submits any number of jobs, from a list or an async iterable, in pieces of at most 1000, and returns the closed batch. The next jobs are
   * taken from the source when a piece is stored. A piece with a job that is refused throws, and the pieces before it stay submitted.
   */
  async submit(jobs: Iterable<JobSubmission> | AsyncIterable<JobSubmission>, { id, signal }: SubmitBatchOptions = {}): Promise<Batch> {
    const { batch_id } = await this.#transport.json<Batch>({ method: 'POST', path: '/batches', body: { batch_id: id ?? newId() }, signal });
    let part = 0;
    for await (const piece of piecesOf(jobs)) {
      const path = `${pathOf(batch_id)}/parts/${part++}`;
      await this.#transport.json({ method: 'PUT', path, body: { jobs: piece }, signal });
    }
    return this.#transport.json({ method: 'POST', path: `${pathOf(batch_id)}/close`, signal });
  }

  /** Returns exact counts of this moment. Throws NotFoundError if the org has no such batch. */
  get(batchId: string, { signal }: CallOptions = {}): Promise<Batch> {
    return this.#transport.json({ method: 'GET', path: pathOf(batchId), signal });
  }

  /** Returns the batch once all its jobs are submitted and have ended, in whatever final state. */
  waitFor(batchId: string, { onProgress, ...options }: WaitForBatchOptions = {}): Promise<Batch> {
    return lookUntil({
      ...options,
      what: `Batch ${batchId}`,
      read: (signal) => this.get(batchId, { signal }),
      isOver: ({ done }) => done,
      onProgress,
    });
  }

  /** Iterates over the jobs that failed, are dead-lettered or were cancelled, in the order of their submission. */
  failures(batchId: string, { signal }: CallOptions = {}): AsyncGenerator<BatchFailure, void> {
    const read = async (cursor: string | undefined) => {
      const call = { method: 'GET', path: `${pathOf(batchId)}/failures`, query: { cursor, limit: MAX_JOBS }, signal } as const;
      const { items, next_cursor } = await this.#transport.json<BatchFailures>(call);
      return { items, nextCursor: next_cursor };
    };
    return allPages({ cursor: undefined, signal, read });
  }
}

async function* piecesOf(jobs: Iterable<JobSubmission> | AsyncIterable<JobSubmission>): AsyncGenerator<JobSubmission[]> {
  let piece: JobSubmission[] = [];
  let characters = 0;
  for await (const job of jobs) {
    piece.push(job);
    characters += JSON.stringify(job)?.length ?? 0;
    if (piece.length < MAX_JOBS && characters < MAX_CHARACTERS) continue;
    yield piece;
    piece = [];
    characters = 0;
  }
  if (piece.length > 0) yield piece;
}

const pathOf = (batchId: string): string => `/batches/${encodeURIComponent(batchId)}`;

/** A web page without https has no `randomUUID`, only random bytes. */
function newId(): string {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
