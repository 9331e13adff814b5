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
/** After how many bytes the file is flushed. Twice as many may arrive meanwhile, and a crash loses no more than these. */
const CHECKPOINT_BYTES = 8 * 1024 * 1024;
const FREE = 'free-0';

/** A flush in the background. It covers the first `bytes` of the file. */
interface Flush {
  readonly bytes: number;
  readonly ended: Promise<void>;
  isOver: boolean;
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
  /** The write of the last whole part. The next part gathers meanwhile. */
  #writing: Promise<void> = Promise.resolve();
  #flush: Flush | null = null;
  /** Bytes after a failed write are missing, so nothing may follow them. */
  #failure: { readonly error: unknown } | null = null;

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

  /** Returns while the last whole part is still being written. If that fails, the next call does. */
  async write(chunk: Uint8Array): Promise<void> {
    this.#throwIfFailed();
    for (const part of this.#buffer.add(chunk)) {
      await this.#writing;
      this.#throwIfFailed();
      this.#writing = this.#writePart(part);
    }
  }

  /** Never throws. */
  async #writePart(part: Buffer): Promise<void> {
    try {
      await onDisk(this.#append(part));
      this.#buffer.reuse(part);
    } catch (error) {
      this.#failure ??= { error };
    }
  }

  async #append(part: Uint8Array): Promise<void> {
    if (this.#flush?.isOver || this.#written - (this.#flush?.bytes ?? this.#written) >= CHECKPOINT_BYTES) await this.#setCheckpoint();
    else if ((await unless(ABSENT, stat(this.#path))) === null) throw lost();
    for (let from = 0; from < part.byteLength; ) {
      const { bytesWritten } = await this.#handle.write(part, from, part.byteLength - from, this.#written);
      from += bytesWritten;
      this.#written += bytesWritten;
    }
    if (this.#flush === null && this.#written - this.#checkpoint >= CHECKPOINT_BYTES) this.#startFlush();
  }

  #startFlush(): Flush {
    const ended = this.#handle.sync();
    const flush: Flush = { bytes: this.#written, ended, isOver: false };
    ended.catch(() => undefined).then(() => (flush.isOver = true));
    this.#flush = flush;
    return flush;
  }

  /** Waits for the flush, and notes in the name of the file how far it went. */
  async #setCheckpoint(): Promise<void> {
    if (this.#flush === null) return;
    const { bytes, ended } = this.#flush;
    await ended;
    this.#flush = null;
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

  async complete(description: Description = this.#parts.description): Promise<Written> {
    const checked = checkDescription(description);
    await this.#writing;
    this.#throwIfFailed();
    return onDisk(this.#publish(checked));
  }

  async #publish(description: ReturnType<typeof checkDescription>): Promise<Written> {
    try {
      await this.#append(this.#buffer.take());
      await this.#setCheckpoint();
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
    if (this.#failure === null) await this.#append(this.#buffer.take());
    await this.#setCheckpoint();
    if (this.#written === this.#checkpoint) return;
    this.#startFlush();
    await this.#setCheckpoint();
  }

  /** A file must not be closed while it is written or flushed. */
  async #idle(): Promise<void> {
    await this.#writing;
    await this.#flush?.ended.catch(() => undefined);
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

/** Removes the uploads whose file was last changed before `before`. */
export async function sweepFolderUploads(params: { bucket: FolderBucket; before: Date; limit: number }): Promise<number> {
  const root = join(params.bucket.path, UPLOADS_FOLDER);
  let removed = 0;
  for (const name of (await unless(ABSENT, readdir(root))) ?? []) {
    if (removed === params.limit) break;
    const folder = join(root, name);
    const files = (await unless(ABSENT, readdir(folder))) ?? [];
    const all = await Promise.all(files.map((file) => unless(ABSENT, stat(join(folder, file)))));
    if (all.some((stats) => stats !== null && stats.mtime >= params.before)) continue;
    for (const file of files) await unless(ABSENT, unlink(join(folder, file)));
    await rmdir(folder).catch(() => undefined);
    if (files.length > 0) removed++;
  }
  return removed;
}
