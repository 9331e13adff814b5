import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Upload } from '../../src/objects/object-store.ts';
import { bytesOf, collect, contentOf, digest, inChunks, keysOf, MB } from './bytes.ts';
import type { Current } from './conformance.ts';

async function writeAll(upload: Upload, bytes: Uint8Array): Promise<void> {
  for await (const chunk of inChunks(bytes, 100_000)) await upload.write(chunk);
}

/** Long ago and far ahead, whatever the clock of the service. */
const LONG_AGO = new Date(0);
const FAR_AHEAD = new Date(Date.now() + 86_400_000);

export function describeUploads(current: () => Current): void {
  it.each([0, 1000, 8 * MB, 8 * MB + 1, 20 * MB])('shows an upload of %i bytes when it is complete', async (size) => {
    const { store, bucket, name } = current();
    const bytes = bytesOf(size);
    const upload = await store.upload(name(), { uploadId: randomUUID(), contentType: 'text/first' });
    expect(upload.offset).toBe(0);
    expect(await collect(upload.stored())).toHaveLength(0);
    await writeAll(upload, bytes);
    expect(await store.head(name())).toBeNull();
    expect(await keysOf(store, bucket, name('').key)).toEqual([]);
    const written = await upload.complete({ contentType: 'text/last', metadata: new Map([['sha256', digest(bytes)]]) });
    expect(written).toMatchObject({ size, etag: expect.any(String) });
    const info = await store.head(name());
    expect(info).toMatchObject({ size, contentType: 'text/last', metadata: new Map([['sha256', digest(bytes)]]), etag: written.etag });
    expect(digest((await contentOf(store, name()))!)).toBe(digest(bytes));
  });

  it('continues a closed upload with the bytes that are stored, also under a hostile id', async () => {
    const { store, name } = current();
    const bytes = bytesOf(20 * MB + 5);
    const uploadId = `../../${randomUUID()}\0__proto__`;
    const first = await store.upload(name(), { uploadId });
    await writeAll(first, bytes.subarray(0, 17 * MB));
    await first.close();
    const second = await store.upload(name(), { uploadId, contentType: 'text/plain' });
    expect(second.offset).toBeGreaterThanOrEqual(16 * MB);
    expect(second.offset).toBeLessThanOrEqual(17 * MB);
    expect(digest(await collect(second.stored()))).toBe(digest(bytes.subarray(0, second.offset)));
    await writeAll(second, bytes.subarray(second.offset));
    expect(await second.complete()).toMatchObject({ size: bytes.length });
    expect(digest((await contentOf(store, name()))!)).toBe(digest(bytes));
    expect(await store.head(name())).toMatchObject({ contentType: 'text/plain' });
    const third = await store.upload(name(), { uploadId });
    expect(third.offset).toBe(0);
    await third.abort();
  });

  it('drops the bytes of an aborted upload', async () => {
    const { store, name } = current();
    const uploadId = randomUUID();
    const upload = await store.upload(name(), { uploadId });
    await writeAll(upload, bytesOf(17 * MB));
    await upload.abort();
    const again = await store.upload(name(), { uploadId });
    expect(again.offset).toBe(0);
    await again.abort();
    expect(await store.head(name())).toBeNull();
  });

  it('replaces an object only when the upload is complete', async () => {
    const { store, name } = current();
    await store.put(name(), Buffer.from('old'));
    const upload = await store.upload(name(), { uploadId: randomUUID() });
    await writeAll(upload, bytesOf(9 * MB));
    expect(await contentOf(store, name())).toEqual(Buffer.from('old'));
    await upload.complete();
    expect(await store.head(name())).toMatchObject({ size: 9 * MB });
  });

  it('lets the process complete an upload that opened it last', async () => {
    const { store, name } = current();
    const uploadId = randomUUID();
    const bytes = bytesOf(10 * MB);
    const slow = await store.upload(name(), { uploadId });
    await writeAll(slow, bytes.subarray(0, 9 * MB));
    const next = await store.upload(name(), { uploadId });
    await writeAll(next, bytes.subarray(next.offset));
    await next.complete();
    await expect(slow.complete()).rejects.toMatchObject({ code: 'UPLOAD_LOST' });
    expect(digest((await contentOf(store, name()))!)).toBe(digest(bytes));
  });

  it('sweeps uploads that were not written to for some time, as many as asked for, and nothing else', async () => {
    const { store, bucket, name } = current();
    await store.put(name('kept'), Buffer.from('kept'));
    await store.sweepUploads({ bucket, before: FAR_AHEAD, limit: 1000 });
    const ids = [randomUUID(), randomUUID(), randomUUID()];
    for (const uploadId of ids) {
      const upload = await store.upload(name(), { uploadId });
      await writeAll(upload, bytesOf(9 * MB));
      await upload.close();
    }
    expect(await store.sweepUploads({ bucket, before: LONG_AGO, limit: 10 })).toBe(0);
    expect(await store.sweepUploads({ bucket, before: FAR_AHEAD, limit: 2 })).toBe(2);
    expect(await store.sweepUploads({ bucket, before: FAR_AHEAD, limit: 10 })).toBe(1);
    expect(await store.sweepUploads({ bucket, before: FAR_AHEAD, limit: 10 })).toBe(0);
    for (const uploadId of ids) {
      const upload = await store.upload(name(), { uploadId });
      expect(upload.offset).toBe(0);
      await upload.abort();
    }
    expect(await contentOf(store, name('kept'))).toEqual(Buffer.from('kept'));
  });

  it.each(['', 'é'.repeat(513)])('refuses the upload id %j', async (uploadId) => {
    const { store, name } = current();
    await expect(store.upload(name(), { uploadId })).rejects.toMatchObject({ code: 'INVALID_NAME' });
  });
}
