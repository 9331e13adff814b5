import { readdir, rmdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { FolderBucket } from './folder-bucket.ts';
import { ABSENT, unless } from './folder-errors.ts';
import { UPLOADS_FOLDER } from './folder-paths.ts';

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
