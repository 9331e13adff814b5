import { randomUUID } from 'node:crypto';
import { type FileHandle, open, readdir, rename, rmdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { PartBuffer } from './body.ts';
import type { FolderBucket } from './folder-bucket.ts';
import { ABSENT, onDisk, unless } from './folder-errors.ts';
import { FILE_MODE } from './folder-files.ts';
import { NEW_FOLDER, UPLOADS_FOLDER } from './folder-paths.ts';
import type { FolderSync } from './folder-sync.ts';
import { checkDescription, folderOfUpload } from './object-names.ts';
import type { Description, Upload, Written } from './object-store.ts';
import { codeOf, ObjectStoreError } from './object-store-error.ts';

/** How much is gathered before it is written. */
const WRITE_BYTES = 1024 * 1024;
/** A chunk of this size is written as it is. */
const LARGE_CHUNK_BYTES = 128 * 1024;
/** After how many bytes the file is flushed. */
const CHECKPOINT_BYTES = 8 * 1024 * 1024;
/** How many bytes may be written during a flush. A crash loses these and those before it. Fewer would let fast downloads wait for the disk. */
const MAX_BEHIND_BYTES = 64 * 1024 * 1024;
/** How long a look at the owner is good for. An upload changes hands only after its owner was silent for much longer. */
const OWNED_MS = 20;
const FREE = 'free-0';

/** A checkpoint that is being set in the background. It covers the first `bytes` of the file. */
interface Flush {
  readonly bytes: number;
  /** Never rejects. */
  readonly ended: Promise<void>;
}

interface UploadParts {
  readonly bucket: FolderBucket;
  readonly sync: FolderSync;
  readonly key: string;
  readonly uploadId: string;
  readonly description: Description;
}

/**
 * One file, whose name says who owns it and how many of its bytes are safe on disk: `<owner>-<bytes>`. A rename therefore sets a
 * checkpoint, and another one takes the upload away from a process that is slow to die: that process no longer finds its file.
 */
export class FolderUpload implements Upload {
  readonly offset: number;
  readonly #parts: UploadParts;
  readonly #folder: string;
  readonly #handle: FileHandle;
  readonly #owner: string;
  readonly #buffer = new PartBuffer(WRITE_BYTES);
  #checkpoint: number;
  #written: number;
  /** When the file was last seen to be ours. */
  #ownedMs = Number.NEGATIVE_INFINITY;
  /** The write of the last whole part. The next part gathers meanwhile. */
  #writing: Promise<void> = Promise.resolve();
  #flush: Flush | null = null;
  /** Bytes after a failed write or flush may be missing, so nothing may follow them. */
  #failure: { readonly error: unknown } | null = null;
  /** After a failed flush a second one may succeed although bytes are lost, so no checkpoint may follow it. */
  #unsafe: { readonly error: unknown } | null = null;

  private constructor(params: { parts: UploadParts; folder: string; handle: FileHandle; owner: string; offset: number }) {
    this.#parts = params.parts;
    this.#folder = params.folder;
    this.#handle = params.handle;
    this.#owner = params.owner;
    this.offset = params.offset;
    this.#checkpoint = params.offset;
    this.#written = params.offset;
  }

  static async open(parts: UploadParts): Promise<FolderUpload> {
    checkDescription(parts.description);
    const folder = join(UPLOADS_FOLDER, folderOfUpload(parts.uploadId));
    return onDisk(FolderUpload.#take(parts, folder));
  }

  static async #take(parts: UploadParts, folder: string): Promise<FolderUpload> {
    const owner = randomUUID();
    const path = join(parts.bucket.path, folder);
    for (;;) {
      await parts.bucket.createFolder(folder);
      await parts.bucket.createFolder(NEW_FOLDER);
      const file = await fileOf(path);
      const offset = Number(file?.slice(file.lastIndexOf('-') + 1));
      const mine = join(path, `${owner}-${offset}`);
      // Another process may have taken it first. Then this one takes it from that process.
      if (
        file === null ||
        (await unless(
          ABSENT,
          rename(join(path, file), mine).then(() => true),
        )) === null
      )
        continue;
      const handle = await unless(ABSENT, open(mine, 'r+'));
      if (handle === null) continue;
      // Bytes after the checkpoint may be missing on the disk after a loss of power, whatever the length of the file says.
      try {
        await handle.truncate(offset);
        const now = new Date();
        await handle.utimes(now, now);
        return new FolderUpload({ parts, folder: path, handle, owner, offset });
      } catch (error) {
        await handle.close();
        throw error;
      }
    }
  }

  async *stored(): AsyncGenerator<Uint8Array, void> {
    for (let from = 0; from < this.offset; ) {
      const length = Math.min(WRITE_BYTES, this.offset - from);
      const { bytesRead, buffer } = await onDisk(this.#handle.read(Buffer.allocUnsafeSlow(length), 0, length, from));
      if (bytesRead === 0) throw lost();
      yield buffer.subarray(0, bytesRead);
      from += bytesRead;
    }
  }

  /** A large chunk is written when this returns. Small ones are gathered, and the last whole part is still being written; if that fails, the next call does. */
  async write(chunk: Uint8Array): Promise<void> {
    this.#throwIfFailed();
    if (chunk.byteLength >= LARGE_CHUNK_BYTES) {
      if (this.#buffer.length > 0) await this.#queue(this.#buffer.take());
      await this.#queue(chunk);
      await this.#writing;
      this.#throwIfFailed();
      return;
    }
    for (const part of this.#buffer.add(chunk)) await this.#queue(part, () => this.#buffer.reuse(part));
  }

  /** Waits for the part before. */
  async #queue(part: Uint8Array, onWritten: () => void = () => undefined): Promise<void> {
    await this.#writing;
    this.#throwIfFailed();
    this.#writing = this.#writePart(part).then(onWritten);
  }

  /** Never throws. */
  async #writePart(part: Uint8Array): Promise<void> {
    try {
      await onDisk(this.#append(part));
    } catch (error) {
      this.#failure ??= { error };
    }
  }

  async #append(part: Uint8Array): Promise<void> {
    if (this.#flush !== null && this.#written - this.#flush.bytes >= MAX_BEHIND_BYTES) await this.#flushed();
    if (performance.now() - this.#ownedMs > OWNED_MS) await this.#checkOwner();
    for (let from = 0; from < part.byteLength; ) {
      const { bytesWritten } = await this.#handle.write(part, from, part.byteLength - from, this.#written);
      from += bytesWritten;
      this.#written += bytesWritten;
    }
    if (this.#flush === null && this.#written - this.#checkpoint >= CHECKPOINT_BYTES) this.#startFlush();
  }

  async #checkOwner(): Promise<void> {
    const startMs = performance.now();
    if ((await unless(ABSENT, stat(this.#path))) === null) {
      // The checkpoint that is being set may have given the file another name.
      await this.#flushed();
      if ((await unless(ABSENT, stat(this.#path))) === null) throw lost();
    }
    this.#ownedMs = startMs;
  }

  #startFlush(): void {
    const bytes = this.#written;
    const ended = onDisk(this.#setCheckpoint(bytes))
      .catch((error: unknown) => {
        this.#failure ??= { error };
        this.#unsafe = { error };
      })
      .then(() => {
        this.#flush = null;
      });
    this.#flush = { bytes, ended };
  }

  /** Flushes the file, and notes in its name how far it is safe. */
  async #setCheckpoint(bytes: number): Promise<void> {
    await this.#handle.sync();
    const to = join(this.#folder, `${this.#owner}-${bytes}`);
    if (
      (await unless(
        ABSENT,
        rename(this.#path, to).then(() => true),
      )) === null
    )
      throw lost();
    this.#checkpoint = bytes;
    await this.#parts.sync.flush(this.#folder);
  }

  async #flushed(): Promise<void> {
    await this.#flush?.ended;
    this.#throwIfFailed();
  }

  async complete(description: Description = this.#parts.description): Promise<Written> {
    const checked = checkDescription(description);
    await this.#writing;
    this.#throwIfFailed();
    return onDisk(this.#publish(checked));
  }

  async #publish(description: ReturnType<typeof checkDescription>): Promise<Written> {
    try {
      await this.#checkOwner();
      await this.#append(this.#buffer.take());
      await this.#flushed();
      const { bucket, key } = this.#parts;
      const etag = await bucket.publish({ source: { kind: 'file', path: this.#path }, key, description });
      await rmdir(this.#folder).catch(() => undefined);
      return { size: this.#written, etag };
    } catch (error) {
      throw codeOf(error) === 'ENOENT' ? lost() : error;
    } finally {
      await this.#idle();
      await this.#handle.close();
    }
  }

  async abort(): Promise<void> {
    await this.#idle();
    await this.#handle.close();
    await onDisk(unless(ABSENT, unlink(this.#path)));
    await rmdir(this.#folder).catch(() => undefined);
  }

  async close(): Promise<void> {
    if (this.#handle.fd === -1) return; // `complete` failed and closed it.
    await this.#writing;
    try {
      await onDisk(this.#saveAll());
    } catch (error) {
      // The new owner keeps what is stored.
      if (!(error instanceof ObjectStoreError && error.code === 'UPLOAD_LOST')) throw error;
    } finally {
      await this.#idle();
      await this.#handle.close();
    }
  }

  /** After a failed write the buffer does not continue the file, so it is left out. */
  async #saveAll(): Promise<void> {
    if (this.#failure === null) {
      await this.#checkOwner();
      await this.#append(this.#buffer.take());
    }
    await this.#flush?.ended;
    if (this.#unsafe !== null) throw this.#unsafe.error;
    if (this.#written > this.#checkpoint) await this.#setCheckpoint(this.#written);
  }

  /** A file must not be closed while it is written or flushed. */
  async #idle(): Promise<void> {
    await this.#writing;
    await this.#flush?.ended;
  }

  #throwIfFailed(): void {
    if (this.#failure !== null) throw this.#failure.error;
  }

  get #path(): string {
    return join(this.#folder, `${this.#owner}-${this.#checkpoint}`);
  }
}

/** The file of an upload. Null if a new one was created, so that the caller looks again: two processes must see the same file. */
async function fileOf(folder: string): Promise<string | null> {
  const files = (await unless(ABSENT, readdir(folder))) ?? [];
  const owned = files.find((file) => file !== FREE);
  if (owned !== undefined && files.includes(FREE)) await unless(ABSENT, unlink(join(folder, FREE)));
  if (owned !== undefined || files.includes(FREE)) return owned ?? FREE;
  const handle = await unless(['EEXIST', ...ABSENT], open(join(folder, FREE), 'wx', FILE_MODE));
  await handle?.close();
  return null;
}

const lost = () => new ObjectStoreError('UPLOAD_LOST', 'this process no longer owns the upload');
