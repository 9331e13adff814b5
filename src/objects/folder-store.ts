import { type FileHandle, mkdir, readdir, readFile, realpath, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { chunksOf } from './body.ts';
import { FolderBucket } from './folder-bucket.ts';
import { ABSENT, onDisk, unless } from './folder-errors.ts';
import { DRAFT_SUFFIX, FOLDER_MODE, parseSides } from './folder-files.ts';
import { listFolder } from './folder-list.ts';
import { NEW_FOLDER } from './folder-paths.ts';
import { FolderSync } from './folder-sync.ts';
import { FolderUpload } from './folder-upload.ts';
import { sweepFolderUploads } from './folder-upload-sweep.ts';
import { checkDescription, requireBucket, requireName } from './object-names.ts';
import type { Body, ByteRange, Description, ObjectInfo, ObjectName, ObjectStore, PutOptions, Upload, Written } from './object-store.ts';
import { refuseSize } from './object-store-error.ts';

/** Longer bodies are written piece by piece. */
const SMALL_BYTES = 1024 * 1024;
const MOST_BUCKETS = 1_000;
const PROBE = new Uint8Array(64 * 1024);

/**
 * Objects as files: the object `photos/a.jpg` of the bucket `fetchbox` is the file `<root>/fetchbox/photos/a.jpg`. Buckets are created
 * when something is written to them. Any number of processes may share the folder.
 */
export class FolderStore implements ObjectStore {
  readonly #root: string;
  readonly #sync = new FolderSync();
  #realRoot: Promise<string> | null = null;
  /** Those of the configuration, which are few. */
  readonly #buckets = new Map<string, FolderBucket>();

  constructor(root: string) {
    this.#root = root;
  }

  async put(name: ObjectName, body: Body, options: PutOptions = {}): Promise<Written> {
    requireName(name);
    const description = checkDescription(options);
    const bucket = await this.#bucket(name.bucket);
    const { key } = name;
    if (body instanceof Uint8Array && body.byteLength <= SMALL_BYTES) {
      refuseSize(options.size, body.byteLength);
      options.signal?.throwIfAborted();
      return { size: body.byteLength, etag: await onDisk(bucket.publish({ source: { kind: 'bytes', bytes: body }, key, description })) };
    }
    const { handle, path } = await onDisk(bucket.createNew());
    try {
      const size = await writeAll(handle, body, options.signal).finally(() => handle.close());
      refuseSize(options.size, size);
      options.signal?.throwIfAborted();
      return { size, etag: await onDisk(bucket.publish({ source: { kind: 'file', path }, key, description })) };
    } catch (error) {
      await unlink(path).catch(() => undefined);
      throw error;
    }
  }

  async get(name: ObjectName, range?: ByteRange): Promise<{ info: ObjectInfo; body: Readable } | null> {
    requireName(name);
    const bucket = await this.#bucket(name.bucket);
    const found = await onDisk(bucket.find(name.key));
    if (found === null) return null;
    const { handle, info } = found;
    const start = range?.start ?? 0;
    const end = Math.min(range?.end ?? Number.POSITIVE_INFINITY, info.size - 1);
    if (start > end) {
      await handle.close();
      return { info, body: Readable.from([]) };
    }
    return { info, body: handle.createReadStream({ start, end }) };
  }

  async head(name: ObjectName): Promise<ObjectInfo | null> {
    requireName(name);
    const bucket = await this.#bucket(name.bucket);
    const found = await onDisk(bucket.find(name.key));
    await found?.handle.close();
    return found?.info ?? null;
  }

  async list({ bucket, prefix, after = '', limit }: Parameters<ObjectStore['list']>[0]): ReturnType<ObjectStore['list']> {
    return onDisk(listFolder(await this.#bucket(bucket), { prefix, after, limit }));
  }

  async delete(name: ObjectName): Promise<boolean> {
    requireName(name);
    return onDisk((await this.#bucket(name.bucket)).remove(name.key));
  }

  async upload(name: ObjectName, { uploadId, ...description }: Description & { readonly uploadId: string }): Promise<Upload> {
    requireName(name);
    return FolderUpload.open({ bucket: await this.#bucket(name.bucket), sync: this.#sync, key: name.key, uploadId, description });
  }

  async sweepUploads({ bucket: name, before, limit }: { bucket: string; before: Date; limit: number }): Promise<number> {
    const bucket = await this.#bucket(name);
    await onDisk(sweepNew(bucket, before));
    return onDisk(sweepFolderUploads({ bucket, before, limit }));
  }

  /** Writes and flushes a file, because a full disk can still be read. */
  async check(name: string): Promise<void> {
    const bucket = await this.#bucket(name);
    const { handle, path } = await onDisk(bucket.createNew());
    try {
      await onDisk(handle.writeFile(PROBE));
      await onDisk(handle.sync());
    } finally {
      await handle.close();
      await unlink(path).catch(() => undefined);
    }
  }

  async close(): Promise<void> {}

  async #bucket(bucket: string): Promise<FolderBucket> {
    const known = this.#buckets.get(bucket);
    if (known !== undefined) return known;
    requireBucket(bucket);
    this.#realRoot ??= onDisk(this.#createRoot());
    try {
      const made = new FolderBucket({ bucket, path: join(await this.#realRoot, bucket), sync: this.#sync });
      if (this.#buckets.size < MOST_BUCKETS) this.#buckets.set(bucket, made);
      return made;
    } catch (error) {
      this.#realRoot = null;
      throw error;
    }
  }

  async #createRoot(): Promise<string> {
    await mkdir(this.#root, { recursive: true, mode: FOLDER_MODE });
    return realpath(this.#root);
  }
}

async function writeAll(handle: FileHandle, body: Body, signal: AbortSignal | undefined): Promise<number> {
  let size = 0;
  for await (const chunk of chunksOf(body, signal)) {
    for (let from = 0; from < chunk.byteLength; ) {
      const { bytesWritten } = await onDisk(handle.write(chunk, from, chunk.byteLength - from, size));
      from += bytesWritten;
      size += bytesWritten;
    }
  }
  return size;
}

/** Removes what writers left behind that crashed. */
async function sweepNew(bucket: FolderBucket, before: Date): Promise<void> {
  const folder = join(bucket.path, NEW_FOLDER);
  for (const name of (await unless(ABSENT, readdir(folder))) ?? []) {
    const path = join(folder, name);
    const stats = await unless(ABSENT, stat(path));
    if (stats === null || stats.mtime >= before) continue;
    const sides = name.endsWith(DRAFT_SUFFIX) ? parseSides((await unless(ABSENT, readFile(path, 'utf8'))) ?? '') : [];
    for (const side of sides) await bucket.tidy(side);
    await unless(ABSENT, unlink(path));
  }
}
