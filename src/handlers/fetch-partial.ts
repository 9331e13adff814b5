import { hash } from 'node:crypto';
import type { DownloadStore, StoredDescription } from '../core/ingest/download-store.ts';
import type { FetchTask } from '../core/ingest/fetch-task.ts';
import type { FetchContext } from './fetch-ports.ts';
import { storing } from './fetch-verdict.ts';
import { UploadFlow } from './upload-flow.ts';

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
  #flow: UploadFlow | null = null;
  /** What has arrived while there is no upload. It is hashed with one call, which costs a third of a hash in steps. */
  #small: Uint8Array[] = [];
  #uploadId = '';
  #uploads = 0;
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
    const { flow, offset } = await this.#open();
    await flow.readStored(this.#context.signal);
    this.#received = offset;
    this.#validator = kept.validator;
    this.#isKept = true;
  }

  /** Drops what there is. The id contains the lease of the attempt, so that two attempts never write to one upload. */
  async restart(validator: string | null): Promise<void> {
    await this.drop();
    this.#validator = validator;
    this.#uploadId = `${this.#context.jobId}.${this.#context.leaseToken}.${++this.#uploads}`;
  }

  /** Takes the chunk over, which must not change any more. */
  async write(chunk: Uint8Array): Promise<void> {
    this.#received += chunk.length;
    if (this.#flow === null && this.#received <= SMALL_BYTES) {
      this.#small.push(chunk);
      return;
    }
    const flow = this.#flow ?? (await this.#open()).flow;
    const earlier = this.#small;
    this.#small = [];
    for (const piece of earlier) await flow.write(piece);
    await flow.write(chunk);
    if (!this.#isKept && this.#received >= WORTH_KEEPING_BYTES) await this.#saveKept();
  }

  async digest(): Promise<string> {
    return this.#flow?.digest() ?? hash('sha256', this.#bytes(), 'hex');
  }

  async complete(description: StoredDescription): Promise<void> {
    const flow = this.#flow;
    if (flow === null) {
      const { bucket, key } = this.#task.storage;
      await storing(() => this.#store.put({ bucket, key }, this.#bytes(), description));
      return;
    }
    await flow.complete(description);
    this.#flow = null;
  }

  /** Keeps the bytes for the next attempt if it can use them. */
  async keep(): Promise<void> {
    if (!this.#isKept) return this.drop();
    const flow = this.#flow;
    this.#flow = null;
    await flow?.close().catch(() => undefined);
  }

  /** The store removes what could not be dropped now. */
  async drop(): Promise<void> {
    const flow = this.#flow;
    this.#flow = null;
    this.#small = [];
    this.#received = 0;
    this.#validator = null;
    this.#isKept = false;
    await flow?.abort().catch(() => undefined);
  }

  #bytes(): Uint8Array {
    const [first] = this.#small;
    return this.#small.length === 1 && first !== undefined ? first : Buffer.concat(this.#small);
  }

  async #open(): Promise<{ flow: UploadFlow; offset: number }> {
    const { bucket, key } = this.#task.storage;
    const upload = await storing(() => this.#store.upload({ bucket, key }, { uploadId: this.#uploadId }));
    const flow = new UploadFlow(upload);
    this.#flow = flow;
    return { flow, offset: upload.offset };
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

/** A strong ETag, or else the date of the last change. A weak ETag does not say that the bytes are the same. */
export function validatorOf(headers: Readonly<Record<string, string>>): string | null {
  const { etag } = headers;
  if (etag !== undefined && /^"[\x21\x23-\x7e\x80-\xff]*"$/.test(etag)) return etag;
  const modified = headers['last-modified'];
  return modified !== undefined && modified.length < 100 && !Number.isNaN(Date.parse(modified)) ? modified : null;
}
