/** What every object store does. Each store runs it, and `scripts/s3-conformance.ts` runs it against a service of your choice. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ObjectName, ObjectStore } from '../../src/objects/object-store.ts';
import { bytesOf, collect, contentOf, digest, inChunks, keysOf, MB } from './bytes.ts';
import { describeNames } from './name-conformance.ts';
import { describeUploads } from './upload-conformance.ts';

export interface Subject {
  readonly store: ObjectStore;
  /** Exists, and may contain objects of earlier runs. */
  readonly bucket: string;
  /** Services refuse some keys; these are not tried on them. */
  readonly refuses?: (key: string) => boolean;
  readonly end: () => Promise<void>;
}

export type Current = Omit<Subject, 'end'> & { readonly name: (key?: string) => ObjectName };

export function describeStore(label: string, open: () => Promise<Subject>): void {
  describe(label, () => {
    let subject: Subject;
    beforeAll(async () => {
      subject = await open();
    });
    afterAll(() => subject?.end());

    /** Each test has its own prefix, so that tests can share a bucket. */
    const current = (): Current => {
      const prefix = `${randomUUID()}/`;
      return { ...subject, name: (key = 'object') => ({ bucket: subject.bucket, key: `${prefix}${key}` }) };
    };

    describeObjects(current);
    describeNames(current);
    describeLists(current);
    describeUploads(current);
  });
}

function describeObjects(current: () => Current): void {
  it('returns what was put: bytes, size, etag, content type and metadata [FB-1.30]', async () => {
    const { store, name } = current();
    const metadata = new Map([
      ['plain', 'a b'],
      ['unicode', 'naïve 日本 😀'],
      ['spaces', '  both ends  '],
      ['empty', ''],
      ['percent', '%41%'],
      ['control', 'a\r\nb\0'],
      ['constructor', 'x'],
    ]);
    const written = await store.put(name(), Buffer.from('hello'), { contentType: 'text/plain; charset=utf-8', metadata });
    const found = await store.get(name());
    expect(await collect(found!.body)).toEqual(Buffer.from('hello'));
    expect(found!.info).toMatchObject({ ...name(), size: 5, contentType: 'text/plain; charset=utf-8', etag: written.etag });
    expect(written).toMatchObject({ size: 5, etag: expect.any(String) });
    expect(found!.info.metadata).toEqual(metadata);
    expect(found!.info.modifiedAt.getTime()).toBeGreaterThan(Date.now() - 600_000);
    expect(await store.head(name())).toEqual(found!.info);
  });

  it('has defaults for what was not said, and keeps an empty object', async () => {
    const { store, name } = current();
    expect(await store.put(name(), new Uint8Array())).toMatchObject({ size: 0 });
    expect(await contentOf(store, name())).toHaveLength(0);
    expect(await store.head(name())).toMatchObject({ size: 0, contentType: 'application/octet-stream', metadata: new Map() });
  });

  it('knows what is not there', async () => {
    const { store, name } = current();
    expect(await store.get(name())).toBeNull();
    expect(await store.head(name())).toBeNull();
    expect(await store.delete(name())).toBe(false);
  });

  it('replaces an object together with its description', async () => {
    const { store, name } = current();
    const first = await store.put(name(), Buffer.from('first'), { contentType: 'text/a', metadata: new Map([['old', '1']]) });
    const second = await store.put(name(), Buffer.from('2nd'), { contentType: 'text/b', metadata: new Map([['new', '2']]) });
    expect(second.etag).not.toBe(first.etag);
    expect(await contentOf(store, name())).toEqual(Buffer.from('2nd'));
    expect(await store.head(name())).toMatchObject({ contentType: 'text/b', metadata: new Map([['new', '2']]), etag: second.etag });
  });

  it('deletes an object once', async () => {
    const { store, name } = current();
    await store.put(name('a/b/c'), Buffer.from('x'));
    expect(await store.delete(name('a/b/c'))).toBe(true);
    expect(await store.get(name('a/b/c'))).toBeNull();
    expect(await store.delete(name('a/b/c'))).toBe(false);
    await store.put(name('a/b/c'), Buffer.from('y'));
    expect(await contentOf(store, name('a/b/c'))).toEqual(Buffer.from('y'));
  });

  it.each([
    [{ start: 0, end: 0 }, 0, 1],
    [{ start: 3, end: 7 }, 3, 8],
    [{ start: 95 }, 95, 100],
    [{ start: 99, end: 1000 }, 99, 100],
    [{ start: 100 }, 100, 100],
    [{ start: 5000, end: 6000 }, 100, 100],
  ])('reads the range %j, and says how large the whole object is', async (range, from, to) => {
    const { store, name } = current();
    const bytes = bytesOf(100);
    await store.put(name(), bytes, { metadata: new Map([['a', 'b']]) });
    const found = await store.get(name(), range);
    expect(await collect(found!.body)).toEqual(bytes.subarray(from, to));
    expect(found!.info).toMatchObject({ size: 100, metadata: new Map([['a', 'b']]) });
  });

  it.each([
    [4, 'more'],
    [6, 'fewer'],
  ])('refuses a body of another length than %i, and keeps the object that was there', async (size) => {
    const { store, name } = current();
    await store.put(name(), Buffer.from('old'));
    await expect(store.put(name(), Buffer.from('hello'), { size })).rejects.toMatchObject({ code: 'SIZE_MISMATCH' });
    expect(await contentOf(store, name())).toEqual(Buffer.from('old'));
    expect(await store.put(name(), Buffer.from('hello'), { size: 5 })).toMatchObject({ size: 5 });
  });

  it.each([1, 20])('passes the error of a body on after %i MB, and shows nothing of it', async (megabytes) => {
    const { store, bucket, name } = current();
    const broken = new Error('the source broke');
    async function* body() {
      for (let sent = 0; sent < megabytes; sent++) yield bytesOf(MB, sent);
      throw broken;
    }
    await expect(store.put(name(), body())).rejects.toBe(broken);
    expect(await store.get(name())).toBeNull();
    expect(await keysOf(store, bucket, name('').key)).toEqual([]);
  });

  it.each([1, 20])('stops at an abort while the body is silent after %i MB, and shows nothing of it', async (megabytes) => {
    const { store, name } = current();
    const abort = new AbortController();
    const reason = new Error('enough');
    async function* body() {
      for (let sent = 0; sent < megabytes; sent++) yield bytesOf(MB, sent);
      abort.abort(reason);
      await new Promise(() => undefined);
    }
    await expect(store.put(name(), body(), { signal: abort.signal })).rejects.toBe(reason);
    expect(await store.get(name())).toBeNull();
    await expect(store.put(name(), Buffer.from('x'), { signal: abort.signal })).rejects.toBe(reason);
  });

  it('keeps a stream of 64 MB whole', async () => {
    const { store, name } = current();
    const bytes = bytesOf(64 * MB + 17);
    const written = await store.put(name(), inChunks(bytes), { size: bytes.length, contentType: 'video/mp4' });
    const info = await store.head(name());
    expect(info).toMatchObject({ size: bytes.length, contentType: 'video/mp4', etag: written.etag });
    const found = await store.get(name());
    expect(digest(await collect(found!.body))).toBe(digest(bytes));
    await store.delete(name());
  });

  it('never shows a part of an object, or the description of another one, while it is replaced', async () => {
    const { store, name } = current();
    const version = (number: number) => Buffer.alloc(1000 + number * 7919, number);
    const put = (number: number) => store.put(name(), inChunks(version(number), 4096), { metadata: new Map([['number', `${number}`]]) });
    await put(0);
    let writing = true;
    const readers = Array.from({ length: 4 }, async () => {
      let seen = 0;
      for (; writing || seen === 0; seen++) {
        const found = await store.get(name());
        const bytes = await collect(found!.body);
        const number = Number(found!.info.metadata.get('number'));
        expect(bytes.equals(version(number))).toBe(true);
        expect(found!.info.size).toBe(bytes.length);
      }
      return seen;
    });
    const writers = [1, 2].map(async (first) => {
      for (let number = first; number < 40; number += 2) await put(number);
    });
    await Promise.all(writers).finally(() => {
      writing = false;
    });
    expect(Math.min(...(await Promise.all(readers)))).toBeGreaterThan(0);
  });

  it('says that its bucket can be used', async () => {
    const { store, bucket } = current();
    await expect(store.check(bucket)).resolves.toBeUndefined();
  });
}

function describeLists(current: () => Current): void {
  it('lists sizes and times, in pages of the size asked for', async () => {
    const { store, bucket, name } = current();
    const keys = ['a', 'a-b', 'a/b', 'a/b/c', 'a0', 'b'];
    for (const [index, key] of keys.entries()) await store.put(name(key), Buffer.alloc(index));
    const prefix = name('').key;
    const first = await store.list({ bucket, prefix, limit: 4 });
    expect(first.items.map(({ key, size }) => [key.slice(prefix.length), size])).toEqual(
      keys.slice(0, 4).map((key, index) => [key, index]),
    );
    expect(first.items[0]!.modifiedAt.getTime()).toBeGreaterThan(Date.now() - 600_000);
    expect(first.next).toBe(`${prefix}a/b/c`);
    const second = await store.list({ bucket, prefix, after: first.next!, limit: 4 });
    expect(second.items.map(({ key }) => key)).toEqual([`${prefix}a0`, `${prefix}b`]);
    expect(second.next).toBeNull();
    expect((await store.list({ bucket, prefix, limit: 6 })).next).toBeNull();
    expect(await keysOf(store, bucket, `${prefix}a/`)).toEqual([`${prefix}a/b`, `${prefix}a/b/c`]);
    expect(await keysOf(store, bucket, `${prefix}a/b`)).toEqual([`${prefix}a/b`, `${prefix}a/b/c`]);
    expect(await keysOf(store, bucket, `${prefix}zzz/`)).toEqual([]);
  });
}
