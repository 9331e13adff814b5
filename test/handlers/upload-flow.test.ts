import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { StoreUpload } from '../../src/core/ingest/download-store.ts';
import { SLAB_BYTES, slabs } from '../../src/core/slab-pool.ts';
import { ThreadHash } from '../../src/handlers/thread-hash.ts';
import { UploadFlow } from '../../src/handlers/upload-flow.ts';
import { bytesOf } from '../objects/bytes.ts';

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** Keeps what it gets in memory, and refuses calls that overlap. */
function memoryUpload(onWrite: (count: number) => Promise<void> = async () => undefined) {
  const pieces: Buffer[] = [];
  const calls: string[] = [];
  let isBusy = false;
  const upload: StoreUpload = {
    offset: 0,
    async *stored() {
      yield* pieces;
    },
    write: async (chunk) => {
      if (isBusy) throw new Error('the calls overlap');
      isBusy = true;
      calls.push('write');
      await onWrite(calls.length).finally(() => (isBusy = false));
      pieces.push(Buffer.from(chunk));
    },
    complete: async () => calls.push('complete'),
    abort: async () => void calls.push(isBusy ? 'overlap' : 'abort'),
    close: async () => void calls.push(isBusy ? 'overlap' : 'close'),
  };
  return { upload, pieces, calls, content: () => Buffer.concat(pieces) };
}

/** Gives the bytes in slabs to the flow, as a socket would: in views of different lengths. */
function* inSlabs(bytes: Buffer): Generator<Buffer> {
  let space = slabs.take();
  for (let from = 0, size = 1; from < bytes.length; size = (size * 31) % 400_009) {
    const piece = space.subarray(0, Math.min(size, space.length, bytes.length - from));
    bytes.copy(piece, 0, from);
    from += piece.length;
    space = space.subarray(piece.length);
    yield piece;
    if (space.length === 0) space = slabs.take();
  }
  slabs.release(space);
}

test('small and large pieces, in slabs and elsewhere, arrive in their order', async () => {
  const { upload, content, calls, pieces } = memoryUpload();
  const flow = new UploadFlow(upload);
  const bytes = bytesOf(10 * SLAB_BYTES + 77);
  const middle = 4 * SLAB_BYTES + 5;
  for (const piece of inSlabs(bytes.subarray(0, middle))) await flow.write(piece);
  for (let from = middle; from < bytes.length; from += 16_000) await flow.write(bytes.subarray(from, from + 16_000));
  expect(await flow.digest()).toBe(sha256(bytes));
  await flow.complete({});
  expect(content().equals(bytes)).toBe(true);
  expect(calls.at(-1)).toBe('complete');
  // Pieces that lie side by side are written together.
  expect(pieces.length).toBeLessThan(20);
});

test('nothing is a hash and a body, too', async () => {
  const { upload, content } = memoryUpload();
  const flow = new UploadFlow(upload);
  expect(await flow.digest()).toBe(sha256(Buffer.alloc(0)));
  await flow.complete({});
  expect(content()).toHaveLength(0);
});

test('a failed write ends the flow, and the upload keeps what came before', async () => {
  const { upload, content, calls } = memoryUpload(async (count) => {
    if (count === 3) throw new Error('full');
  });
  const flow = new UploadFlow(upload);
  const bytes = bytesOf(8 * SLAB_BYTES);
  const writeAll = async () => {
    for (const piece of inSlabs(bytes)) await flow.write(piece);
  };
  await expect(writeAll()).rejects.toMatchObject({ failure: { code: 'STORAGE_UNAVAILABLE' } });
  await expect(flow.digest()).rejects.toMatchObject({ failure: { code: 'STORAGE_UNAVAILABLE' } });
  await flow.close();
  expect(calls).toEqual(['write', 'write', 'write', 'close']);
  expect(content().equals(bytes.subarray(0, content().length))).toBe(true);
});

test('closing stores what was gathered, and aborting waits for the write in flight', async () => {
  const closed = memoryUpload();
  const first = new UploadFlow(closed.upload);
  await first.write(Buffer.from('gathered'));
  await first.close();
  expect(closed.content().toString()).toBe('gathered');
  const hung = Promise.withResolvers<void>();
  const aborted = memoryUpload(() => hung.promise);
  const second = new UploadFlow(aborted.upload);
  await second.write(bytesOf(SLAB_BYTES));
  const ended = second.abort();
  hung.resolve();
  await ended;
  expect(aborted.calls).toEqual(['write', 'abort']);
});

test('a continued flow has the hash of the stored bytes, too', async () => {
  const { upload, pieces } = memoryUpload();
  pieces.push(Buffer.from('stored '), bytesOf(100_000));
  const before = Buffer.concat(pieces);
  const flow = new UploadFlow(upload);
  await flow.readStored(new AbortController().signal);
  await flow.write(Buffer.from('and new'));
  expect(await flow.digest()).toBe(sha256(Buffer.concat([before, Buffer.from('and new')])));
  await flow.abort();
});

test('hashes at the same time do not mix, and a hash may go on after its digest', async () => {
  const hashes = Array.from({ length: 20 }, () => new ThreadHash());
  await Promise.all(hashes.map((hash, n) => hash.update(Buffer.from(`one ${n}`))));
  const digests = await Promise.all(hashes.map((hash) => hash.digest()));
  expect(digests).toEqual(hashes.map((_, n) => sha256(Buffer.from(`one ${n}`))));
  await hashes[3]?.update(Buffer.from(', more'));
  expect(await hashes[3]?.digest()).toBe(sha256(Buffer.from('one 3, more')));
  for (const hash of hashes) hash.forget();
});
