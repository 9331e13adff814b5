import { expect, test } from 'vitest';
import { SLAB_BYTES, SlabPool } from '../../src/core/slab-pool.ts';

test('a slab is used again when each of its bytes was released', () => {
  const slabs = new SlabPool();
  const first = slabs.take();
  expect([first.length, first.buffer instanceof SharedArrayBuffer]).toEqual([SLAB_BYTES, true]);
  slabs.release(first.subarray(100));
  expect(slabs.take().buffer).not.toBe(first.buffer);
  slabs.release(first.subarray(0, 99));
  expect(slabs.take().buffer).not.toBe(first.buffer);
  slabs.release(first.subarray(99, 100));
  const again = slabs.take();
  expect(again.buffer).toBe(first.buffer);
  slabs.release(again);
  expect(slabs.take().buffer).toBe(first.buffer);
});

test('memory that is not from the pool, or no longer taken, is ignored', () => {
  const slabs = new SlabPool();
  const slab = slabs.take();
  slabs.release(slab);
  slabs.release(slab);
  slabs.release(Buffer.alloc(SLAB_BYTES));
  expect(slabs.take().buffer).toBe(slab.buffer);
  expect(slabs.take().buffer).not.toBe(slab.buffer);
});

test('slabs that are lost are bounded: then there is ordinary memory, until some are released', () => {
  const slabs = new SlabPool();
  const lost = Array.from({ length: 300 }, () => slabs.take());
  const shared = lost.filter(({ buffer }) => buffer instanceof SharedArrayBuffer);
  expect(shared).toHaveLength(256);
  expect(new Set(shared.map(({ buffer }) => buffer)).size).toBe(256);
  expect(lost.at(-1)).toHaveLength(SLAB_BYTES);
  slabs.release(lost.at(-1) as Buffer);
  slabs.release(shared[0] as Buffer);
  expect(slabs.take().buffer).toBe(shared[0]?.buffer);
});
