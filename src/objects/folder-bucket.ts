import { randomUUID } from 'node:crypto';
import { type BigIntStats, constants } from 'node:fs';
import { type FileHandle, lstat, open, readFile, realpath, rmdir, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ABSENT, unless } from './folder-errors.ts';
import { FILE_MODE, type Side, sideOfVersion, versionOf } from './folder-files.ts';
import { longPlaceOf, NEW_FOLDER, type Place, placeOf, sideName } from './folder-paths.ts';
import type { PublishOrder } from './folder-publish.ts';
import type { FolderSync } from './folder-sync.ts';
import { folderThreads } from './folder-threads.ts';
import type { CheckedDescription } from './object-names.ts';
import type { ObjectInfo } from './object-store.ts';
import { ObjectStoreError } from './object-store-error.ts';

/** A FIFO that somebody put there must not block a thread, and a symbolic link must not lead elsewhere. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
/** How often a reader starts again because others replaced the file meanwhile. */
const MAX_TRIES = 100;

type PublishParams = {
  readonly key: string;
  readonly source: PublishOrder['source'];
  readonly description: CheckedDescription;
};

/** The files of one bucket. Every method works on the file system; errors of it are passed on as they are. */
export class FolderBucket {
  readonly bucket: string;
  readonly path: string;
  readonly #sync: FolderSync;

  constructor(params: { bucket: string; path: string; sync: FolderSync }) {
    this.bucket = params.bucket;
    this.path = params.path;
    this.#sync = params.sync;
  }

  /**
   * A key has two places. A file in the long place wins, and later versions stay there. So two writers that disagree whether the
   * other place was free cannot leave an old version on top.
   */
  async find(key: string): Promise<{ place: Place; handle: FileHandle; info: ObjectInfo } | null> {
    const natural = placeOf(key);
    for (const place of natural === null ? [longPlaceOf(key)] : [longPlaceOf(key), natural]) {
      const found = await this.read(place, key);
      if (found !== null) return { place, ...found };
    }
    return null;
  }

  /** The version is in the name of the side file, so bytes and description always belong together. */
  async read(place: Place, key: string): Promise<{ handle: FileHandle; info: ObjectInfo } | null> {
    let unchanged = '';
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const handle = await unless(ABSENT, open(this.#pathOf(place), READ));
      if (handle === null) return null;
      try {
        const stats = await handle.stat({ bigint: true });
        if (!stats.isFile() || !(await this.isInside(place.folder))) return await closed(handle);
        const version = versionOf(stats);
        const side = await this.#readSide(place, version);
        // A file without a description that is still there was not written by a store.
        if (side !== null || unchanged === version) return { handle, info: this.#infoOf({ key, stats, version, side }) };
        unchanged = version;
        await handle.close();
      } catch (error) {
        await handle.close();
        throw error;
      }
    }
    throw new ObjectStoreError('STORE_UNAVAILABLE', 'other processes keep replacing this object');
  }

  /** Null if there is no such file. Other programs may have written the file, so the text can be anything. */
  async #readSide(place: Place, version: string): Promise<Side | null> {
    const path = join(this.path, place.folder, sideName(place.name, version));
    const text = await unless(ABSENT, readFile(path, { encoding: 'utf8', flag: READ }));
    return text === null ? null : sideOfVersion(text, version);
  }

  async keyAt(place: Place): Promise<string | null> {
    const stats = await unless(ABSENT, lstat(this.#pathOf(place), { bigint: true }));
    return stats === null ? null : ((await this.#readSide(place, versionOf(stats)))?.key ?? null);
  }

  #infoOf({ key, stats, version, side }: { key: string; stats: BigIntStats; version: string; side: Side | null }): ObjectInfo {
    return {
      bucket: this.bucket,
      key,
      size: Number(stats.size),
      etag: version,
      modifiedAt: stats.mtime,
      contentType: side?.contentType ?? null,
      metadata: new Map(side?.metadata),
    };
  }

  async createNew(): Promise<{ handle: FileHandle; path: string }> {
    await this.createFolder(NEW_FOLDER);
    const path = join(this.path, NEW_FOLDER, randomUUID());
    return { handle: await open(path, 'wx', FILE_MODE), path };
  }

  /** Makes bytes, or the bytes in a file of this bucket, the object `key`. They are safe on disk afterwards. */
  publish({ key, source, description }: PublishParams): Promise<string> {
    const { contentType, metadata } = description;
    return folderThreads.publish({ bucketPath: this.path, key, source, contentType, metadata: [...metadata] });
  }

  async #removeSide(place: Place, version: string): Promise<void> {
    await unless(ABSENT, unlink(join(this.path, place.folder, sideName(place.name, version))));
  }

  /** Removes the side files of a writer that crashed, unless its object became visible. */
  async tidy({ key, version, previous }: Side): Promise<void> {
    const natural = placeOf(key);
    for (const place of natural === null ? [longPlaceOf(key)] : [longPlaceOf(key), natural]) {
      const stats = await unless(ABSENT, lstat(this.#pathOf(place), { bigint: true }));
      const current = stats === null ? null : versionOf(stats);
      for (const each of [version, previous]) if (each !== null && each !== current) await this.#removeSide(place, each);
      await this.#removeEmptyFolders(place.folder);
    }
  }

  async remove(key: string): Promise<boolean> {
    const natural = placeOf(key);
    let existed = false;
    // The long place wins, so it goes last: nobody sees an older version in between.
    for (const place of natural === null ? [longPlaceOf(key)] : [natural, longPlaceOf(key)]) {
      if (await this.#removeAt(place)) existed = true;
    }
    return existed;
  }

  async #removeAt(place: Place): Promise<boolean> {
    const path = this.#pathOf(place);
    const stats = await unless(ABSENT, lstat(path, { bigint: true }));
    if (!stats?.isFile() || !(await this.isInside(place.folder))) return false;
    if (
      (await unless(
        ABSENT,
        unlink(path).then(() => true),
      )) === null
    )
      return false;
    await this.#removeSide(place, versionOf(stats));
    await this.#sync.flush(dirname(path));
    await this.#removeEmptyFolders(place.folder);
    return true;
  }

  async #removeEmptyFolders(folder: string): Promise<void> {
    for (let each = folder; each !== '' && each !== '.'; each = dirname(each)) {
      const removed = await rmdir(join(this.path, each)).catch(() => 'in use');
      if (removed === 'in use') return;
    }
  }

  /** Creates a folder of this bucket, if it is missing. A symbolic link on the way is refused. */
  async createFolder(folder: string): Promise<void> {
    const path = join(this.path, folder);
    for (let each = path; each.length >= this.path.length; each = dirname(each)) {
      const real = await unless(['ENOENT'], realpath(each));
      if (real === each && each === path) return;
      if (real === each) break;
      if (real !== null) throw new ObjectStoreError('INVALID_NAME', `a symbolic link in the folder of objects leads to ${real}`);
    }
    await this.#sync.createFolder(path, dirname(this.path));
  }

  /** False if the folder is missing, or a symbolic link on the way leads elsewhere. */
  async isInside(folder: string): Promise<boolean> {
    const path = join(this.path, folder);
    return (await unless(ABSENT, realpath(path))) === path;
  }

  #pathOf({ folder, name }: Place): string {
    return join(this.path, folder, name);
  }
}

async function closed(handle: FileHandle): Promise<null> {
  await handle.close();
  return null;
}
