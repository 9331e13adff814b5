import { Worker as Thread } from 'node:worker_threads';
import type { PublishOrder } from './folder-publish.ts';
import { ObjectStoreError, type ObjectStoreErrorCode } from './object-store-error.ts';

/** A thread waits for one flush at a time, and a disk takes several at once. */
const MAX_THREADS = 4;
/** A message costs as much as a small file, so a thread gets several. Those of one batch share a description file and a flush of their folder. */
const MAX_BATCH = 64;
const SLOW_FILE_MS = 1;
/** While a thread is busy, fewer files than this wait for others, to share a batch: on a fast disk until that thread is done. */
const WORTH_A_THREAD = 24;
/** But not for longer, because that thread may be flushing a large file. */
const PATIENCE_MS = 5;
const SMOOTHING = 8;

export type SentOrder = Omit<PublishOrder, 'source'> & {
  readonly source:
    | { readonly kind: 'bytes'; readonly start: number; readonly length: number }
    | { readonly kind: 'file'; readonly path: string };
};

/** The bytes of all orders lie in one buffer, which the thread gets without a copy. The orders are JSON, which costs less than a copy of objects. */
export interface Batch {
  readonly orders: string;
  readonly bytes: ArrayBuffer;
}

export type Answer =
  | { readonly kind: 'published'; readonly version: string }
  | { readonly kind: 'refused' | 'failed'; readonly code: string | null; readonly message: string };

/** The time of the thread alone: the main thread of a busy process reads the answer late. */
export interface Done {
  readonly answers: readonly Answer[];
  readonly tookMs: number;
}

interface Job {
  readonly order: PublishOrder;
  resolve(version: string): void;
  reject(error: unknown): void;
}

interface Place {
  readonly thread: Thread;
  jobs: readonly Job[];
}

/** The threads that write objects into folders, for all stores of the process. They start when they are needed, and do not keep the process alive. */
class FolderThreads {
  readonly #waiting: Job[] = [];
  readonly #threads = new Set<Place>();
  /** How long a file took, on average of the last batches. */
  #fileMs = SLOW_FILE_MS;
  #patience: NodeJS.Timeout | null = null;
  #sentMs = Number.NEGATIVE_INFINITY;

  /** Returns the version. The object is visible and on disk then. */
  publish(order: PublishOrder): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    this.#waiting.push({ order, resolve, reject });
    if (this.#waiting.length === 1) setImmediate(() => this.#dispatch());
    return promise;
  }

  /** On a slow disk the files are spread over the threads. On a fast one, waking a thread takes longer than its work. */
  #dispatch(isPatient = true): void {
    let busy = 0;
    for (const { jobs } of this.#threads) if (jobs.length > 0) busy++;
    const isSlow = this.#fileMs > SLOW_FILE_MS;
    const share = isSlow ? Math.ceil(this.#waiting.length / Math.max(1, MAX_THREADS - busy)) : MAX_BATCH;
    for (; this.#waiting.length > 0; busy++) {
      if (isPatient && busy > 0 && this.#waiting.length < WORTH_A_THREAD && (!isSlow || performance.now() - this.#sentMs < PATIENCE_MS)) {
        this.#dispatchSoon();
        return;
      }
      const place = this.#idle();
      if (place === null) return;
      place.jobs = this.#waiting.splice(0, Math.min(MAX_BATCH, share));
      this.#sentMs = performance.now();
      const batch = batchOf(place.jobs);
      place.thread.ref();
      place.thread.postMessage(batch, [batch.bytes]);
    }
  }

  #dispatchSoon(): void {
    this.#patience ??= setTimeout(() => {
      this.#patience = null;
      this.#dispatch(false);
    }, PATIENCE_MS);
  }

  #idle(): Place | null {
    for (const place of this.#threads) if (place.jobs.length === 0) return place;
    return this.#threads.size < MAX_THREADS ? this.#start() : null;
  }

  #start(): Place {
    const file = import.meta.url.endsWith('.ts') ? './folder-thread.ts' : './folder-thread.js';
    const thread = new Thread(new URL(file, import.meta.url));
    const place: Place = { thread, jobs: [] };
    this.#threads.add(place);
    let problem = 'it ended';
    thread.on('message', ({ answers, tookMs }: Done) => {
      const { jobs } = place;
      place.jobs = [];
      this.#fileMs += (tookMs / jobs.length - this.#fileMs) / SMOOTHING;
      thread.unref();
      for (const [index, job] of jobs.entries()) settle(job, answers[index] as Answer);
      this.#dispatch();
    });
    thread.on('error', (error) => {
      problem = error instanceof Error ? error.message : String(error);
    });
    thread.once('exit', () => {
      this.#threads.delete(place);
      const error = new ObjectStoreError('STORE_UNAVAILABLE', `the thread that writes objects failed (${problem})`);
      for (const job of place.jobs) job.reject(error);
      this.#dispatch();
    });
    return place;
  }
}

export const folderThreads = new FolderThreads();

function batchOf(jobs: readonly Job[]): Batch {
  const sizes = jobs.map(({ order: { source } }) => (source.kind === 'bytes' ? source.bytes.byteLength : 0));
  const bytes = new ArrayBuffer(sizes.reduce((sum, size) => sum + size, 0));
  const all = new Uint8Array(bytes);
  let start = 0;
  const orders = jobs.map(({ order: { source, ...order } }, index): SentOrder => {
    if (source.kind === 'file') return { ...order, source };
    const length = sizes[index] as number;
    all.set(source.bytes, start);
    start += length;
    return { ...order, source: { kind: 'bytes', start: start - length, length } };
  });
  return { orders: JSON.stringify(orders), bytes };
}

function settle({ resolve, reject }: Job, answer: Answer): void {
  if (answer.kind === 'published') resolve(answer.version);
  else reject(errorOf(answer));
}

/** Errors lose their class and their code on the way between threads. */
function errorOf({ kind, code, message }: Exclude<Answer, { kind: 'published' }>): Error {
  const error: Error & { code?: string | null } =
    kind === 'refused' ? new ObjectStoreError(code as ObjectStoreErrorCode, '') : new Error(message);
  error.code = code;
  error.message = message;
  return error;
}
