import { createHash } from 'node:crypto';
import type { ObjectName, ObjectStore } from '../../src/objects/object-store.ts';

export const MB = 1024 * 1024;

/** Bytes that differ at every position of a part, the same for the same seed. */
export function bytesOf(size: number, seed = 1): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  let state = seed;
  for (let index = 0; index < size; index += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    if (index + 4 <= size) bytes.writeInt32LE(state, index);
    else bytes.fill(state & 0xff, index);
  }
  return bytes;
}

export async function* inChunks(bytes: Uint8Array, size = 64 * 1024): AsyncGenerator<Uint8Array, void> {
  for (let from = 0; from < bytes.byteLength; from += size) yield bytes.subarray(from, from + size);
}

export async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}

export const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Null if there is no such object. */
export async function contentOf(store: ObjectStore, name: ObjectName): Promise<Buffer | null> {
  const found = await store.get(name);
  return found === null ? null : collect(found.body);
}

export async function keysOf(store: ObjectStore, bucket: string, prefix: string): Promise<string[]> {
  const { items } = await store.list({ bucket, prefix, limit: 1000 });
  return items.map(({ key }) => key);
}
