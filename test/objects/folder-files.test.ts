import { execFileSync } from 'node:child_process';
import { constants } from 'node:fs';
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { escapeSegment, unescapeName } from '../../src/objects/folder-paths.ts';
import { FolderStore } from '../../src/objects/folder-store.ts';
import { contentOf, keysOf } from './bytes.ts';

const bucket = 'bucket';

async function newStore(): Promise<{ store: FolderStore; root: string; outside: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'objects-files-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const outside = join(folder, 'outside');
  await mkdir(outside);
  await writeFile(join(outside, 'secret'), 'secret');
  return { store: new FolderStore(join(folder, 'root')), root: join(folder, 'root'), outside };
}

it('keeps an object where ordinary tools find it, for its owner only', async () => {
  const { store, root } = await newStore();
  await store.put({ bucket, key: 'gallery/ä b/1.jpg' }, Buffer.from('picture'), { contentType: 'image/jpeg' });
  expect(await readFile(join(root, bucket, 'gallery/ä b/1.jpg'), 'utf8')).toBe('picture');
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const { mode } = await lstat(join(entry.parentPath, entry.name));
    expect((mode & 0o777).toString(8)).toBe(entry.isDirectory() ? '700' : '600');
  }
  expect((await stat(root)).mode & 0o777).toBe(0o700);
});

it('stays below the root with every key', async () => {
  const { store, root, outside } = await newStore();
  for (const key of [
    '../../outside/secret',
    '..',
    '../bucket2/x',
    '/etc/passwd',
    'a/../../../outside/secret',
    '%2e%2e/%2e%2e/outside/secret',
  ]) {
    await store.put({ bucket, key }, Buffer.from('mine'));
    expect(await contentOf(store, { bucket, key })).toEqual(Buffer.from('mine'));
  }
  expect(await readFile(join(outside, 'secret'), 'utf8')).toBe('secret');
  expect(await readdir(outside)).toEqual(['secret']);
  expect(await readdir(root)).toEqual([bucket]);
});

it('follows no symbolic link: neither to a file, nor to a folder, nor as a bucket', async () => {
  const { store, root, outside } = await newStore();
  await store.put({ bucket, key: 'a' }, Buffer.from('a'));
  await symlink(join(outside, 'secret'), join(root, bucket, 'file'));
  await symlink(outside, join(root, bucket, 'folder'));
  await symlink(outside, join(root, 'linked'));
  expect(await store.get({ bucket, key: 'file' })).toBeNull();
  expect(await store.get({ bucket, key: 'folder/secret' })).toBeNull();
  expect(await store.head({ bucket: 'linked', key: 'secret' })).toBeNull();
  expect(await store.delete({ bucket, key: 'folder/secret' })).toBe(false);
  expect(await keysOf(store, bucket, '')).toEqual(['a']);
  expect(await keysOf(store, bucket, 'folder/')).toEqual([]);
  expect(await keysOf(store, 'linked', '')).toEqual([]);
  await expect(store.put({ bucket, key: 'folder/new' }, Buffer.from('x'))).rejects.toMatchObject({ code: 'INVALID_NAME' });
  await expect(store.put({ bucket: 'linked', key: 'new' }, Buffer.from('x'))).rejects.toMatchObject({ code: 'INVALID_NAME' });
  await expect(store.upload({ bucket: 'linked', key: 'new' }, { uploadId: 'x' })).rejects.toMatchObject({ code: 'INVALID_NAME' });
  // The name of a link to a file is free: the object replaces the link and not the file.
  await store.put({ bucket, key: 'file' }, Buffer.from('mine'));
  expect(await contentOf(store, { bucket, key: 'file' })).toEqual(Buffer.from('mine'));
  expect(await readdir(outside)).toEqual(['secret']);
  expect(await readFile(join(outside, 'secret'), 'utf8')).toBe('secret');
});

it('fails only the objects of a batch that cannot be written', async () => {
  const { store, root, outside } = await newStore();
  await store.put({ bucket, key: 'a' }, Buffer.from('a'));
  await symlink(outside, join(root, bucket, 'folder'));
  const keys = Array.from({ length: 40 }, (_, n) => (n % 10 === 3 ? `folder/${n}` : `${n % 3}/${n}`));
  const ends = await Promise.allSettled(keys.map((key) => store.put({ bucket, key }, Buffer.from(key))));
  for (const [index, key] of keys.entries()) {
    if (key.startsWith('folder/')) expect(ends[index]).toMatchObject({ status: 'rejected', reason: { code: 'INVALID_NAME' } });
    else expect(await contentOf(store, { bucket, key })).toEqual(Buffer.from(key));
  }
  expect(await readdir(outside)).toEqual(['secret']);
  expect(await readdir(join(root, bucket, '.%new'))).toEqual([]);
});

it('keeps `a` and `a/b` in either order, and after one of them is gone', async () => {
  for (const keys of [
    ['a', 'a/b', 'a/b/c'],
    ['a/b/c', 'a/b', 'a'],
  ]) {
    const { store } = await newStore();
    for (const key of keys) await store.put({ bucket, key }, Buffer.from(key), { metadata: new Map([['key', key]]) });
    for (const key of keys) expect((await store.head({ bucket, key }))?.metadata.get('key')).toBe(key);
    expect(await keysOf(store, bucket, '')).toEqual(['a', 'a/b', 'a/b/c']);
    await store.delete({ bucket, key: keys[0]! });
    await store.put({ bucket, key: keys[2]! }, Buffer.from('again'));
    expect(await contentOf(store, { bucket, key: keys[2]! })).toEqual(Buffer.from('again'));
    expect(await keysOf(store, bucket, '')).toEqual(keys.slice(1).sort());
  }
});

it('shows a file that a person put there, without a description, and takes none from an older version', async () => {
  const { store, root } = await newStore();
  await store.put({ bucket, key: 'a' }, Buffer.from('mine'), { contentType: 'text/plain', metadata: new Map([['a', 'b']]) });
  await writeFile(join(root, bucket, 'a'), 'theirs');
  expect(await store.head({ bucket, key: 'a' })).toMatchObject({ size: 6, contentType: null, metadata: new Map() });
  await writeFile(join(root, bucket, '100% sure'), 'not the name of any key');
  expect(await keysOf(store, bucket, '')).toEqual(['a']);
});

it('keeps descriptions in a copy that keeps times', async () => {
  const { store, root, outside } = await newStore();
  await store.put({ bucket, key: 'a/b' }, Buffer.from('x'), { contentType: 'text/plain' });
  execFileSync('cp', ['-a', root, join(outside, 'copy')]);
  const copy = new FolderStore(join(outside, 'copy'));
  expect(await copy.head({ bucket, key: 'a/b' })).toEqual(await store.head({ bucket, key: 'a/b' }));
  expect(await copy.head({ bucket, key: 'a/b' })).toMatchObject({ contentType: 'text/plain' });
});

it('removes folders that become empty, while others write into them', async () => {
  const { store, root } = await newStore();
  const busy = Array.from({ length: 4 }, async (_, index) => {
    for (let round = 0; round < 25; round++) {
      const key = `deep/er/${index}`;
      await store.put({ bucket, key }, Buffer.from(key));
      expect(await contentOf(store, { bucket, key })).toEqual(Buffer.from(key));
      expect(await store.delete({ bucket, key })).toBe(true);
    }
  });
  await Promise.all(busy);
  expect(await readdir(join(root, bucket))).toEqual(['.%new']);
});

it('gives one of two processes that open the same new upload the whole of it', async () => {
  const { store, root } = await newStore();
  const other = new FolderStore(root);
  for (let round = 0; round < 20; round++) {
    const name = { bucket, key: `object${round}` };
    const uploads = await Promise.all([store, other, store].map((each) => each.upload(name, { uploadId: `${round}` })));
    for (const [index, upload] of uploads.entries()) await upload.write(Buffer.from(`writer ${index}`));
    const ends = await Promise.allSettled(uploads.map((upload) => upload.complete()));
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const winner = ends.findIndex(({ status }) => status === 'fulfilled');
    expect(await contentOf(store, name)).toEqual(Buffer.from(`writer ${winner}`));
  }
  expect(await readdir(join(root, bucket, '.%uploads'))).toEqual([]);
});

it('says so if it may not use the folder', async () => {
  const { store, root } = await newStore();
  await store.check(bucket);
  // Root may write anywhere, so the folder is replaced by a file.
  await rm(root, { recursive: true });
  await writeFile(root, '');
  const blocked = new FolderStore(root);
  await expect(blocked.check(bucket)).rejects.toMatchObject({ name: 'ObjectStoreError', code: 'STORE_UNAVAILABLE' });
  if (process.getuid?.() === 0) return;
  await rm(root);
  await mkdir(root, { mode: 0o500 });
  await expect(new FolderStore(root).check(bucket)).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
  await chmod(root, constants.S_IRWXU);
});

it('escapes a segment in one way only', () => {
  for (const segment of ['', '.', '..', '...', '%', '%2E', '%41', 'a%', '\0', '\x7f', 'é', '.%meta-']) {
    expect(unescapeName(escapeSegment(segment))).toBe(segment);
  }
  for (const name of ['.', '..', '%', '%2e', '.%new', 'a%zz', '%00%']) expect(unescapeName(name)).toBeNull();
});
