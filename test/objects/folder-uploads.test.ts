import type { Stats } from 'node:fs';
import { mkdtemp, open, readdir, rm, stat } from 'node:fs/promises';
import { devNull, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { FolderStore } from '../../src/objects/folder-store.ts';
import type { Upload } from '../../src/objects/object-store.ts';
import { until } from '../until.ts';
import { bytesOf, contentOf, digest, inChunks, MB } from './bytes.ts';

const bucket = 'bucket';

async function newStore(): Promise<{ store: FolderStore; root: string }> {
  const root = await mkdtemp(join(tmpdir(), 'objects-uploads-'));
  onTestFinished(() => rm(root, { recursive: true }));
  return { store: new FolderStore(root), root };
}

/** The only file of the only upload. */
async function fileOf(root: string): Promise<Stats | undefined> {
  const files = await readdir(join(root, bucket, '.%uploads'), { recursive: true, withFileTypes: true });
  const file = files.find((entry) => entry.isFile());
  return file && stat(join(file.parentPath, file.name));
}

/** Replaces the next call of any open file. */
async function replaceOnce(call: 'write' | 'sync', by: () => Promise<unknown>): Promise<void> {
  const handle = await open(devNull);
  const replaced = vi.spyOn(Object.getPrototypeOf(handle), call).mockImplementationOnce(by);
  onTestFinished(() => replaced.mockRestore());
  await handle.close();
}

const failOnce = (call: 'write' | 'sync') =>
  replaceOnce(call, () => Promise.reject(Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })));

async function writeIn(upload: Upload, bytes: Uint8Array, chunkSize: number): Promise<void> {
  for await (const chunk of inChunks(bytes, chunkSize)) await upload.write(chunk);
}

it.each([
  ['a large chunk, which says so itself', MB],
  ['gathered chunks, which the next call says', MB / 16],
])('accepts no more bytes after a failed write of %s, and continues where the bytes are whole', async (_, chunkSize) => {
  const { store, root } = await newStore();
  const bytes = bytesOf(3 * MB);
  const upload = await store.upload({ bucket, key: 'a' }, { uploadId: 'a' });
  await writeIn(upload, bytes.subarray(0, MB), chunkSize);
  await until('the first part is written', async () => (await fileOf(root))?.size === MB);
  await failOnce('write');
  const failed = writeIn(upload, bytes.subarray(MB, 2 * MB), chunkSize);
  if (chunkSize === MB) await expect(failed).rejects.toMatchObject({ code: 'STORE_FULL' });
  else await failed;
  const rest = () => writeIn(upload, bytes.subarray(2 * MB), MB);
  for (const call of [rest, rest, () => upload.complete()]) await expect(call()).rejects.toMatchObject({ code: 'STORE_FULL' });
  await upload.close();
  const again = await store.upload({ bucket, key: 'a' }, { uploadId: 'a' });
  expect(again.offset).toBe(MB);
  await again.write(bytes.subarray(again.offset));
  await again.complete();
  expect(await contentOf(store, { bucket, key: 'a' })).toEqual(bytes);
});

it('writes chunks of all sizes in their order', async () => {
  const { store } = await newStore();
  const bytes = bytesOf(12 * MB + 7);
  const upload = await store.upload({ bucket, key: 'a' }, { uploadId: 'a' });
  let from = 0;
  for (let round = 0; from < bytes.length; round++) {
    const end = from + ([1, 200_000, 131_071, 131_072, 3 * MB, 70_000][round % 6] as number);
    const chunk = Buffer.from(bytes.subarray(from, end));
    await upload.write(chunk);
    // The caller may use its memory again.
    chunk.fill(0);
    from = end;
  }
  await upload.complete();
  expect(digest((await contentOf(store, { bucket, key: 'a' })) as Buffer)).toBe(digest(bytes));
});

it('sets no checkpoint after a flush that failed, because a second one would not say which bytes are lost', async () => {
  const { store } = await newStore();
  const bytes = bytesOf(20 * MB);
  const upload = await store.upload({ bucket, key: 'a' }, { uploadId: 'a' });
  await upload.write(bytes.subarray(0, MB));
  await failOnce('sync');
  await writeIn(upload, bytes.subarray(MB, 8 * MB), MB).catch(() => undefined);
  await until('the flush has failed', () =>
    upload.write(new Uint8Array(0)).then(
      () => false,
      () => true,
    ),
  );
  await expect(upload.complete()).rejects.toMatchObject({ code: 'STORE_FULL' });
  await expect(upload.close()).rejects.toMatchObject({ code: 'STORE_FULL' });
  const again = await store.upload({ bucket, key: 'a' }, { uploadId: 'a' });
  expect(again.offset).toBe(0);
  await again.abort();
});

it('goes on writing during a flush, but not without end, and owns its file while it sets a checkpoint', async () => {
  const { store } = await newStore();
  const upload = await store.upload({ bucket, key: 'a' }, { uploadId: 'a' });
  const piece = bytesOf(8 * MB);
  const hung = Promise.withResolvers<void>();
  await replaceOnce('sync', () => hung.promise);
  for (let count = 0; count < 9; count++) await upload.write(piece);
  const order: string[] = [];
  const last = upload.write(piece).then(() => order.push('written'));
  // This takes longer than a write.
  await store.put({ bucket, key: 'b' }, Buffer.from('b'));
  order.push('flushed');
  hung.resolve();
  await last;
  expect(order).toEqual(['flushed', 'written']);
  for (let count = 0; count < 10; count++) await upload.write(piece);
  await upload.complete();
  expect(await store.head({ bucket, key: 'a' })).toMatchObject({ size: 20 * piece.length });
});
