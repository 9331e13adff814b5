import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { FolderBucket } from './folder-bucket.ts';
import { ABSENT, unless } from './folder-errors.ts';
import { LONG_FOLDER, placeOf, unescapeName } from './folder-paths.ts';
import { compareKeys } from './object-names.ts';
import type { ListedObject } from './object-store.ts';

interface Page {
  readonly prefix: string;
  readonly after: string;
  readonly limit: number;
}

interface Found {
  readonly key: string;
  readonly path: string;
}

/** Reads every folder that can contain keys of the page, in the order of keys, and stops after the page. */
export async function listFolder(bucket: FolderBucket, page: Page): Promise<{ items: ListedObject[]; next: string | null }> {
  const items: ListedObject[] = [];
  const start = startOf(page);
  const walked = (await bucket.isInside(start.folder)) ? walk({ path: join(bucket.path, start.folder), base: start.base }, page) : [];
  for await (const { key, path } of merged(await longObjects(bucket, page), walked)) {
    const stats = await unless(ABSENT, lstat(path));
    if (!stats?.isFile()) continue;
    if (items.length === page.limit) return { items, next: items.at(-1)?.key ?? null };
    items.push({ key, size: stats.size, modifiedAt: stats.mtime });
  }
  return { items, next: null };
}

interface Folder {
  readonly path: string;
  /** What the keys in this folder start with. */
  readonly base: string;
}

/** The deepest folder that contains all keys with the prefix. */
function startOf({ prefix }: Page): { folder: string; base: string } {
  const base = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  const place = placeOf(`${base}x`);
  return place === null ? { folder: '', base: '' } : { folder: place.folder, base };
}

async function* walk({ path, base }: Folder, page: Page): AsyncGenerator<Found, void> {
  const entries = (await unless(ABSENT, readdir(path, { withFileTypes: true }))) ?? [];
  const found = entries.flatMap((entry) => entryOf(entry, base)).sort((a, b) => compareKeys(a.key, b.key));
  for (const { key, name, isFolder } of found) {
    if (isFolder && mayContain(key, page)) yield* walk({ path: join(path, name), base: key }, page);
    if (!isFolder && isOnPage(key, page)) yield { key, path: join(path, name) };
  }
}

/** A folder sorts with the slash that its keys have in common. Symbolic links are neither files nor folders here. */
function entryOf(entry: Dirent, base: string): { key: string; name: string; isFolder: boolean }[] {
  const segment = unescapeName(entry.name);
  const isFolder = entry.isDirectory();
  if (segment === null || !(isFolder || entry.isFile())) return [];
  return [{ key: `${base}${segment}${isFolder ? '/' : ''}`, name: entry.name, isFolder }];
}

function mayContain(start: string, { prefix, after }: Page): boolean {
  if (!(start.startsWith(prefix) || prefix.startsWith(start))) return false;
  return after.startsWith(start) || compareKeys(start, after) > 0;
}

const isOnPage = (key: string, { prefix, after }: Page): boolean => key.startsWith(prefix) && compareKeys(key, after) > 0;

/** Their names are hashes, so every one of them is read. They are rare. */
async function longObjects(bucket: FolderBucket, page: Page): Promise<Found[]> {
  if (!(await bucket.isInside(LONG_FOLDER))) return [];
  const found: Found[] = [];
  for (const shard of (await unless(ABSENT, readdir(join(bucket.path, LONG_FOLDER)))) ?? []) {
    const folder = join(LONG_FOLDER, shard);
    for (const name of (await unless(ABSENT, readdir(join(bucket.path, folder)))) ?? []) {
      if (!/^[0-9a-f]{64}$/.test(name)) continue;
      const key = await bucket.keyAt({ folder, name });
      if (key !== null && isOnPage(key, page)) found.push({ key, path: join(bucket.path, folder, name) });
    }
  }
  return found.sort((a, b) => compareKeys(a.key, b.key));
}

/** Where a key has both places, the first one wins, as it does for readers. */
async function* merged(first: readonly Found[], second: AsyncIterable<Found> | Iterable<Found>): AsyncGenerator<Found, void> {
  let index = 0;
  for await (const other of second) {
    let isHidden = false;
    for (; index < first.length && compareKeys(first[index]!.key, other.key) <= 0; index++) {
      isHidden ||= first[index]!.key === other.key;
      yield first[index]!;
    }
    if (!isHidden) yield other;
  }
  yield* first.slice(index);
}
