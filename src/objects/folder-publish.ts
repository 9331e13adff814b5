import { randomUUID } from 'node:crypto';
import {
  type BigIntStats,
  closeSync,
  fstatSync,
  fsyncSync,
  futimesSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  realpathSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { ABSENT } from './folder-errors.ts';
import { DRAFT_SUFFIX, FILE_MODE, FOLDER_MODE, type Side, versionOf } from './folder-files.ts';
import { LONG_FOLDER, longPlaceOf, NEW_FOLDER, type Place, placeOf, sideName } from './folder-paths.ts';
import { codeOf, ObjectStoreError } from './object-store-error.ts';

/** Times of files are exact to a microsecond or better. */
const STEP_SECONDS = 0.000_001;
/** How often a writer starts again because others removed the empty folder meanwhile. */
const MAX_TRIES = 100;
/** A folder has the name of the object, or an object the name of a folder on the way to it. */
const TAKEN: readonly string[] = ['EISDIR', 'ENOTDIR', 'EEXIST', 'ENOTEMPTY'];

/** What becomes an object: bytes, or a file of the same bucket, which is left as it is if this fails. */
export interface PublishOrder {
  readonly bucketPath: string;
  readonly key: string;
  readonly contentType: string;
  readonly metadata: readonly (readonly [string, string])[];
  readonly source: { readonly kind: 'bytes'; readonly bytes: Uint8Array } | { readonly kind: 'file'; readonly path: string };
}

export type PublishResult = { readonly kind: 'published'; readonly version: string } | { readonly kind: 'failed'; readonly error: unknown };

/** An order on its way. The bytes are in `file` at `path`, and not visible yet. */
type Item = {
  readonly order: PublishOrder;
  readonly file: number;
  readonly path: string;
  isFlushed: boolean;
  inLong: boolean;
};

/** Where an item goes, and as which version. */
type Plan = { readonly item: Item; readonly folder: string; readonly target: string; readonly side: Side; readonly sidePath: string };

/**
 * Makes the objects of a batch visible, each with one rename, and returns when they are safe on disk. The order is what makes a crash
 * harmless at every step: first the bytes and the description are safe on disk, then the rename makes both visible. These calls block, so they
 * run in a thread. If each of them were passed to the threads of Node, that would take several times as long as the calls.
 */
export function publishAll(orders: readonly PublishOrder[]): PublishResult[] {
  const results = new Map<PublishOrder, PublishResult>();
  const drafts: string[] = [];
  const folders = new Map<string, { plans: Plan[]; leftovers: string[] }>();
  const fail = (order: PublishOrder, error: unknown) => results.set(order, { kind: 'failed', error });
  let items = opened(orders, fail);
  const all = items;
  try {
    for (let tries = 0; items.length > 0; tries++) {
      if (tries === MAX_TRIES) {
        const error = new ObjectStoreError('STORE_UNAVAILABLE', 'other processes keep removing the folder of this object');
        for (const { order } of items) fail(order, error);
        break;
      }
      const round = publishOnce(items, { drafts, fail });
      for (const plan of round.visible) {
        const { previous, version } = plan.side;
        const folder = folders.get(plan.folder) ?? { plans: [], leftovers: [] };
        folders.set(plan.folder, folder);
        folder.plans.push(plan);
        if (previous !== null && previous !== version) folder.leftovers.push(sidePathOf(plan, previous));
      }
      items = round.again;
    }
    for (const [folder, { plans, leftovers }] of folders) {
      try {
        flushFolder(folder);
        for (const path of leftovers) unless(ABSENT, () => unlinkSync(path));
        for (const { item, side } of plans) results.set(item.order, { kind: 'published', version: side.version });
      } catch (error) {
        for (const { item } of plans) fail(item.order, error);
      }
    }
  } finally {
    for (const draft of drafts) unless(ABSENT, () => unlinkSync(draft));
    for (const item of all) close(item, results.get(item.order)?.kind === 'published');
  }
  return orders.map((order) => results.get(order) as PublishResult);
}

type Failing = (order: PublishOrder, error: unknown) => void;

/** Opens the files of orders, or writes them. */
function opened(orders: readonly PublishOrder[], fail: Failing): Item[] {
  const items: Item[] = [];
  const folders = new CheckedFolders();
  /** Whether a bucket has long places at all. Most have none, so one look spares one for each object. */
  const hasLong = new Map<string, boolean>();
  for (const order of orders) {
    const { source, bucketPath, key } = order;
    try {
      if (source.kind === 'bytes') folders.create(bucketPath, NEW_FOLDER);
      const path = source.kind === 'file' ? source.path : join(bucketPath, NEW_FOLDER, randomUUID());
      const file = openSync(path, source.kind === 'file' ? 'r+' : 'wx', FILE_MODE);
      const item: Item = { order, file, path, isFlushed: false, inLong: false };
      items.push(item);
      if (source.kind === 'bytes') writeWhole(file, source.bytes);
      const mayBeLong = hasLong.get(bucketPath) ?? exists(join(bucketPath, LONG_FOLDER));
      hasLong.set(bucketPath, mayBeLong);
      item.inLong = placeOf(key) === null || (mayBeLong && isInLongPlace(bucketPath, key));
    } catch (error) {
      fail(order, error);
    }
  }
  return items;
}

function isInLongPlace(bucketPath: string, key: string): boolean {
  const { folder, name } = longPlaceOf(key);
  return exists(join(bucketPath, folder, name));
}

const exists = (path: string): boolean => statsOf(path) !== null;

/** An error for each file that is not there would cost more than the look. */
const statsOf = (path: string): BigIntStats | null =>
  unless(ABSENT, () => lstatSync(path, { bigint: true, throwIfNoEntry: false }) ?? null);

/** The folders that one round found or created. If one is removed meanwhile, the next round looks again. */
class CheckedFolders {
  readonly #checked = new Set<string>();

  create(bucketPath: string, folder: string): void {
    const path = join(bucketPath, folder);
    if (this.#checked.has(path)) return;
    createFolder(bucketPath, folder);
    this.#checked.add(path);
  }
}

/** A file of the caller stays if it did not become an object. */
function close({ order, file, path }: Item, isPublished: boolean): void {
  if (order.source.kind === 'bytes' && !isPublished) unless(ABSENT, () => unlinkSync(path));
  closeSync(file);
}

type Round = { readonly drafts: string[]; readonly fail: Failing };

/** One description file serves all items, under a name for each. So it is written and flushed once. */
function publishOnce(items: readonly Item[], { drafts, fail }: Round): { visible: Plan[]; again: Item[] } {
  const visible: Plan[] = [];
  const again: Item[] = [];
  const attempt = (item: Item, work: () => void): boolean => {
    try {
      work();
      return true;
    } catch (error) {
      const next = afterFailure(item, error);
      if (next === 'again') again.push(item);
      else fail(item.order, error);
      return false;
    }
  };
  const plans: Plan[] = [];
  const targets = new Set<string>();
  const folders = new CheckedFolders();
  for (const [index, item] of items.entries()) {
    attempt(item, () => {
      const plan = planOf(item, index, folders);
      // The second version of an object must see the first one, to replace it.
      if (targets.has(plan.target)) again.push(item);
      else plans.push(plan);
      targets.add(plan.target);
    });
  }
  const ofBuckets = Map.groupBy(plans, ({ item }) => item.order.bucketPath);
  for (const [bucketPath, ofBucket] of ofBuckets) {
    const draft = join(bucketPath, NEW_FOLDER, `${randomUUID()}${DRAFT_SUFFIX}`);
    try {
      folders.create(bucketPath, NEW_FOLDER);
      drafts.push(draft);
      writeNew(draft, JSON.stringify(ofBucket.map(({ side }) => side)));
    } catch (error) {
      for (const { item } of ofBucket) fail(item.order, error);
      continue;
    }
    // All flushes first: the names that become visible between two of them would be written with each.
    const flushed = ofBucket.filter(({ item }) => attempt(item, () => flush(item)));
    for (const plan of flushed) attempt(plan.item, () => (show(plan, draft) ? visible.push(plan) : again.push(plan.item)));
  }
  return { visible, again };
}

/** Whether the item may succeed at another place, or because a folder is created again. */
function afterFailure(item: Item, error: unknown): 'again' | 'failed' {
  const code = codeOf(error) ?? '';
  if (!item.inLong && TAKEN.includes(code)) {
    item.inLong = true;
    return 'again';
  }
  // Somebody deleted the last object of the folder, and the folder with it.
  return code === 'ENOENT' && exists(item.path) ? 'again' : 'failed';
}

/** Gives the file a time that no other version has. The items of a batch have different times, so a version names one of them. */
function planOf(item: Item, index: number, folders: CheckedFolders): Plan {
  const { bucketPath, key, contentType, metadata } = item.order;
  const natural = placeOf(key);
  const place: Place = item.inLong || natural === null ? longPlaceOf(key) : natural;
  const folder = join(bucketPath, place.folder);
  const target = join(folder, place.name);
  folders.create(bucketPath, place.folder);
  const before = statsOf(target);
  const now = (Date.now() + Math.random()) / 1_000 + index * STEP_SECONDS;
  futimesSync(item.file, now, now);
  const version = versionOf(fstatSync(item.file, { bigint: true }));
  const side: Side = { key, version, previous: before === null ? null : versionOf(before), contentType, metadata };
  return { item, folder, target, side, sidePath: join(folder, sideName(place.name, version)) };
}

const sidePathOf = ({ folder, target }: Plan, version: string): string => join(folder, sideName(basename(target), version));

function flush(item: Item): void {
  if (!item.isFlushed) fsyncSync(item.file);
  item.isFlushed = true;
}

/** Returns false if another version has the same time. */
function show({ item, target, sidePath }: Plan, draft: string): boolean {
  const isLinked = unless(['EEXIST'], () => {
    linkSync(draft, sidePath);
    return true;
  });
  if (isLinked === null) return false;
  try {
    renameSync(item.path, target);
  } catch (error) {
    unless(ABSENT, () => unlinkSync(sidePath));
    throw error;
  }
  return true;
}

/** Creates a folder of a bucket, if it is missing. A symbolic link on the way is refused. */
function createFolder(bucketPath: string, folder: string): void {
  const path = join(bucketPath, folder);
  for (let each = path; each.length >= bucketPath.length; each = dirname(each)) {
    const real = unless(['ENOENT'], () => realpathSync.native(each));
    if (real === each && each === path) return;
    if (real === each) break;
    if (real !== null) throw new ObjectStoreError('INVALID_NAME', `a symbolic link in the folder of objects leads to ${real}`);
  }
  const created = mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
  if (created === undefined) return;
  for (let each = path; each.length >= created.length; each = dirname(each)) flushFolder(dirname(each));
}

/** A folder that was removed in the meantime needs no flush. */
function flushFolder(path: string): void {
  const folder = unless(['ENOENT', 'ENOTDIR'], () => openSync(path, 'r'));
  if (folder === null) return;
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function writeNew(path: string, text: string): void {
  const file = openSync(path, 'wx', FILE_MODE);
  try {
    writeWhole(file, Buffer.from(text));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function writeWhole(file: number, bytes: Uint8Array): void {
  for (let from = 0; from < bytes.byteLength; ) from += writeSync(file, bytes, from, bytes.byteLength - from, from);
}

/** Null if one of these is the reason, and other errors as they are. */
function unless<T>(codes: readonly string[], work: () => T): T | null {
  try {
    return work();
  } catch (error) {
    if (codes.includes(codeOf(error) ?? '')) return null;
    throw error;
  }
}
