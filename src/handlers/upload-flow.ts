import type { StoredDescription, StoreUpload } from '../core/ingest/download-store.ts';
import { slabs } from '../core/slab-pool.ts';
import { storing } from './fetch-verdict.ts';
import { ThreadHash } from './thread-hash.ts';

/** How much is gathered before it is hashed and stored. */
const PIECE_BYTES = 1024 * 1024;
/** How much may be on its way to the hash and to the store, of all uploads. Each may have one piece. */
const WINDOW_BYTES = 4 * 1024 * 1024;
let openFlows = 0;

/**
 * The bytes of an upload on their way to the hash and to the store. Both work at the same time, in other threads, while more bytes arrive. After
 * a failure nothing more is stored, so that the stored bytes have no gap.
 */
export class UploadFlow {
  readonly #upload: StoreUpload;
  readonly #hash = new ThreadHash();
  /** Gathered bytes that lie side by side in one slab. */
  #piece: Uint8Array | null = null;
  /** The unused rest of a slab, for bytes that arrive elsewhere. */
  #space: Uint8Array = new Uint8Array(0);
  #inFlight = 0;
  #stored: Promise<void> = Promise.resolve();
  /** The last piece is hashed and stored, or has failed. Never rejects. */
  #settled: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | null = null;
  #onRoom: (() => void) | null = null;
  #hasEnded = false;

  constructor(upload: StoreUpload) {
    this.#upload = upload;
    openFlows++;
  }

  /** Hashes what an earlier attempt stored. */
  async readStored(signal: AbortSignal): Promise<void> {
    for await (const bytes of this.#upload.stored()) {
      signal.throwIfAborted();
      await this.#hash.update(bytes);
    }
  }

  /** Takes bytes over, which must not change any more. Resolves when more may come. */
  async write(bytes: Uint8Array): Promise<void> {
    this.#throwIfFailed();
    if (bytes.buffer instanceof SharedArrayBuffer) this.#gather(bytes);
    else for (let from = 0; from < bytes.byteLength; ) from += this.#copy(bytes.subarray(from));
    while (this.#inFlight > WINDOW_BYTES / openFlows && this.#failure === null) await this.#room();
    this.#throwIfFailed();
  }

  /** Returns how many bytes it copied into a slab. */
  #copy(bytes: Uint8Array): number {
    if (this.#space.byteLength === 0) this.#space = slabs.take();
    const count = Math.min(bytes.byteLength, this.#space.byteLength);
    const copied = this.#space.subarray(0, count);
    copied.set(bytes.subarray(0, count));
    this.#space = this.#space.subarray(count);
    this.#gather(copied);
    return count;
  }

  #gather(bytes: Uint8Array): void {
    const piece = this.#piece;
    if (piece !== null && piece.buffer === bytes.buffer && piece.byteOffset + piece.byteLength === bytes.byteOffset) {
      this.#piece = new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength + bytes.byteLength);
    } else {
      this.#send();
      this.#piece = bytes;
    }
    if (this.#piece.byteLength >= PIECE_BYTES) this.#send();
  }

  #send(): void {
    const piece = this.#piece;
    if (piece === null) return;
    this.#piece = null;
    this.#inFlight += piece.byteLength;
    const stored = this.#stored.then(() => {
      this.#throwIfFailed();
      return storing(() => this.#upload.write(piece));
    });
    const fail = (error: unknown) => {
      this.#failure ??= { error };
    };
    // The failure is noted before the next piece has its turn.
    this.#stored = stored.catch(fail);
    this.#settled = Promise.all([this.#hash.update(piece), stored])
      .then(() => {
        slabs.release(piece);
        this.#inFlight -= piece.byteLength;
      })
      .catch(fail)
      .then(() => this.#onRoom?.());
  }

  #room(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onRoom = resolve;
    return promise;
  }

  async #drain(): Promise<void> {
    if (this.#failure === null) this.#send();
    await this.#settled;
    await this.#stored;
    this.#throwIfFailed();
  }

  /** The hash of all bytes, which are written to the store then. */
  async digest(): Promise<string> {
    await this.#drain();
    return this.#hash.digest();
  }

  async complete(description: StoredDescription): Promise<void> {
    await this.#drain();
    await storing(() => this.#upload.complete(description));
    this.#end();
  }

  /** Drops the stored bytes. */
  async abort(): Promise<void> {
    this.#piece = null;
    await this.#settled;
    await this.#stored;
    this.#end();
    await this.#upload.abort();
  }

  /** Keeps the stored bytes, so that the upload can be continued. */
  async close(): Promise<void> {
    await this.#drain().catch(() => undefined);
    this.#end();
    await this.#upload.close();
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    openFlows--;
    this.#hash.forget();
    slabs.release(this.#space);
    this.#space = new Uint8Array(0);
  }

  #throwIfFailed(): void {
    if (this.#failure !== null) throw this.#failure.error;
  }
}
