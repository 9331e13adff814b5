import { createHash, type Hash } from 'node:crypto';
import type { DownloadStore, StoredDescription, StoreUpload } from '../core/ingest/download-store.ts';
import type { FetchTask } from '../core/ingest/fetch-task.ts';
import type { FetchContext } from './fetch-ports.ts';
import { FetchError, failureOfStore } from './fetch-verdict.ts';

/** A download up to this size is kept in memory and stored at once, which takes a third of the time. */
const SMALL_BYTES = 262_144;
/** A shorter download is started anew rather than continued. */
const WORTH_KEEPING_BYTES = 1_048_576;

/** What the next attempt needs to continue a download. */
type Kept = { readonly uploadId: string; readonly url: string; readonly validator: string };

/** The bytes of a download so far. They become an object only when they are complete. */
export class PartialObject {
  readonly #store: DownloadStore;
  readonly #task: FetchTask;
  readonly #context: FetchContext;
  #upload: StoreUpload | null = null;
  /** What has arrived while there is no upload. */
  #small: Uint8Array[] = [];
  #uploadId = '';
  #uploads = 0;
  #hash: Hash = createHash('sha256');
  #isKept = false;
  #received = 0;
  /** Identifies the version of the content, so that a continued download cannot mix two. Null: the server did not say. */
  #validator: string | null = null;

  constructor({ store, task, context }: { store: DownloadStore; task: FetchTask; context: FetchContext }) {
    this.#store = store;
    this.#task = task;
    this.#context = context;
  }

  get received(): number {
    return this.#received;
  }

  /** The validator of the bytes, if the download can be continued with it. */
  get resumesWith(): string | null {
    return this.#received > 0 ? this.#validator : null;
  }

  /** Opens the bytes of an earlier attempt. The store gives them to one attempt only, so an attempt that was thought dead cannot add to them. */
  async reopen(): Promise<void> {
    if (this.#context.attempt === 1) return;
    const kept = readKept(await this.#context.lastCheckpoint());
    if (kept === null || kept.url !== this.#task.url) return;
    this.#uploadId = kept.uploadId;
    const upload = await this.#open();
    for await (const chunk of upload.stored()) {
      this.#context.signal.throwIfAborted();
      this.#hash.update(chunk);
    }
    this.#received = upload.offset;
    this.#validator = kept.validator;
    this.#isKept = true;
  }

  /** Drops what there is. The id contains the lease of the attempt, so that two attempts never write to one upload. */
  async restart(validator: string | null): Promise<void> {
    await this.drop();
    this.#validator = validator;
    this.#uploadId = `${this.#context.jobId}.${this.#context.leaseToken}.${++this.#uploads}`;
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#hash.update(chunk);
    this.#received += chunk.length;
    if (this.#upload === null && this.#received <= SMALL_BYTES) {
      this.#small.push(chunk);
      return;
    }
    const upload = this.#upload ?? (await this.#open());
    const earlier = this.#small;
    this.#small = [];
    for (const piece of [...earlier, chunk]) await storing(() => upload.write(piece));
    if (!this.#isKept && this.#received >= WORTH_KEEPING_BYTES) await this.#saveKept();
  }

  digest(): string {
    return this.#hash.copy().digest('hex');
  }

  async complete(description: StoredDescription): Promise<void> {
    const upload = this.#upload;
    if (upload === null) {
      const { bucket, key } = this.#task.storage;
      await storing(() => this.#store.put({ bucket, key }, Buffer.concat(this.#small), description));
      return;
    }
    await storing(() => upload.complete(description));
    this.#upload = null;
  }

  /** Keeps the bytes for the next attempt if it can use them. */
  async keep(): Promise<void> {
    if (!this.#isKept) return this.drop();
    const upload = this.#upload;
    this.#upload = null;
    await upload?.close().catch(() => undefined);
  }

  /** The store removes what could not be dropped now. */
  async drop(): Promise<void> {
    const upload = this.#upload;
    this.#upload = null;
    this.#small = [];
    this.#received = 0;
    this.#validator = null;
    this.#isKept = false;
    this.#hash = createHash('sha256');
    await upload?.abort().catch(() => undefined);
  }

  async #open(): Promise<StoreUpload> {
    const { bucket, key } = this.#task.storage;
    const upload = await storing(() => this.#store.upload({ bucket, key }, { uploadId: this.#uploadId }));
    this.#upload = upload;
    return upload;
  }

  async #saveKept(): Promise<void> {
    if (this.#validator === null) return;
    const kept: Kept = { uploadId: this.#uploadId, url: this.#task.url, validator: this.#validator };
    await this.#context.checkpoint(kept);
    this.#isKept = true;
  }
}

function readKept(state: unknown): Kept | null {
  const { uploadId, url, validator } = (state ?? {}) as Partial<Record<keyof Kept, unknown>>;
  return typeof uploadId === 'string' && typeof url === 'string' && typeof validator === 'string' ? { uploadId, url, validator } : null;
}

export async function storing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new FetchError(failureOfStore(error));
  }
}

/** A strong ETag, or else the date of the last change. A weak ETag does not say that the bytes are the same. */
export function validatorOf(headers: Readonly<Record<string, string>>): string | null {
  const { etag } = headers;
  if (etag !== undefined && /^"[\x21\x23-\x7e\x80-\xff]*"$/.test(etag)) return etag;
  const modified = headers['last-modified'];
  return modified !== undefined && modified.length < 100 && !Number.isNaN(Date.parse(modified)) ? modified : null;
}
