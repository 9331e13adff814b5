import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { contentOf, keysOf } from './bytes.ts';
import type { Current } from './conformance.ts';

const HOSTILE_KEYS = [
  '../../etc/passwd',
  '..',
  '.',
  'a/../../b',
  '/absolute',
  'a//b',
  'trailing/',
  '//',
  'a\0b',
  'line\nbreak\r\t\x1b[31m',
  'é'.repeat(128),
  'x'.repeat(255),
  'x'.repeat(1000),
  'd/'.repeat(400),
  '%2e%2e%2f',
  '100%',
  '%-',
  '.%meta-a-b',
  '.%long',
  '.%uploads/x',
  'back\\slash',
  'spaces and + plus & amp <tag> "quote" \'single\' (paren) * ! ~',
  '?query=1#fragment',
  'uploads',
  '__proto__',
  'constructor',
  '😀/\u{1F1E9}',
  'e\u0301 is not é',
  '\ufeffmark',
];

export function describeNames(current: () => Current): void {
  it.each(HOSTILE_KEYS)('keeps %j apart from other keys, lists it and deletes it', async (key) => {
    const { store, bucket, name, refuses = () => false } = current();
    const prefix = name('').key;
    const whole = key.length > 900 ? key : prefix + key;
    if (refuses(whole)) {
      await expect(store.put({ bucket, key: whole }, Buffer.from('x'))).rejects.toMatchObject({ code: 'INVALID_NAME' });
      return;
    }
    await store.put({ bucket, key: whole }, Buffer.from(whole), { metadata: new Map([['key', 'yes']]) });
    expect(await contentOf(store, { bucket, key: whole })).toEqual(Buffer.from(whole));
    expect(await store.head({ bucket, key: whole })).toMatchObject({ key: whole, metadata: new Map([['key', 'yes']]) });
    expect(await keysOf(store, bucket, whole)).toEqual([whole]);
    expect(await store.delete({ bucket, key: whole })).toBe(true);
    expect(await keysOf(store, bucket, whole)).toEqual([]);
  });

  it('keeps any set of keys, lists it in the order of bytes, page after page, and forgets it', async () => {
    const { store, bucket, name, refuses = () => false } = current();
    const segment = fc.oneof(
      fc.constantFrom('', '.', '..', 'a', 'b', 'A', '%', '%2E', ' ', '\0', '-', '\u{10000}', '\uffff', '.%new'),
      fc.string({ unit: 'binary', maxLength: 6 }),
    );
    const key = fc.array(segment, { minLength: 1, maxLength: 4 }).map((segments) => segments.join('/'));
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(key, { minLength: 1, maxLength: 12 }), fc.integer({ min: 1, max: 5 }), async (keys, limit) => {
        const prefix = name(`${randomUUID()}/`).key;
        const whole = keys.map((each) => prefix + each).filter((each) => !refuses(each));
        for (const each of whole) await store.put({ bucket, key: each }, Buffer.from(each));
        const listed: string[] = [];
        for (let after: string | undefined; ; ) {
          const { items, next } = await store.list({ bucket, prefix, after, limit });
          expect(items.length).toBeLessThanOrEqual(limit);
          listed.push(...items.map((item) => item.key));
          if (next === null) break;
          after = next;
        }
        expect(listed).toEqual([...whole].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
        for (const each of whole) expect(await contentOf(store, { bucket, key: each })).toEqual(Buffer.from(each));
        for (const each of whole) expect(await store.delete({ bucket, key: each })).toBe(true);
        expect(await keysOf(store, bucket, prefix)).toEqual([]);
      }),
      { numRuns: 15 },
    );
  });

  it.each([
    ['an empty key', { bucket: 'conformance', key: '' }],
    ['a key of 1025 bytes', { bucket: 'conformance', key: 'é'.repeat(513) }],
    ['half of a surrogate pair', { bucket: 'conformance', key: 'a\ud800' }],
    ['a key of the uploads', { bucket: 'conformance', key: '.millrace/uploads/x' }],
    ['no bucket', { bucket: '', key: 'a' }],
    ['a bucket above', { bucket: '..', key: 'a' }],
    ['a bucket with a slash', { bucket: 'a/../b', key: 'a' }],
    ['a bucket in upper case', { bucket: 'Bucket', key: 'a' }],
    ['a bucket like an address', { bucket: '127.0.0.1', key: 'a' }],
    ['a bucket of 64 characters', { bucket: 'b'.repeat(64), key: 'a' }],
  ])('refuses %s with a message that says what to do', async (_, bad) => {
    const { store } = current();
    const error = { name: 'ObjectStoreError', code: 'INVALID_NAME', message: expect.stringMatching(/Use another bucket, key or name/) };
    for (const call of [
      () => store.put(bad, Buffer.from('x')),
      () => store.get(bad),
      () => store.head(bad),
      () => store.delete(bad),
      () => store.upload(bad, { uploadId: 'a' }),
    ]) {
      await expect(call()).rejects.toMatchObject(error);
    }
  });

  it.each([
    ['a name of metadata in upper case', { metadata: new Map([['Name', 'x']]) }],
    ['the name __proto__', { metadata: new Map([['__proto__', 'x']]) }],
    ['a name that ends a header', { metadata: new Map([['a\r\nb', 'x']]) }],
    ['more than 2 KB of metadata', { metadata: new Map([['a', 'é'.repeat(400)]]) }],
    ['a content type that ends a header', { contentType: 'text/plain\r\nx: y' }],
  ])('refuses %s', async (_, options) => {
    const { store, name } = current();
    await expect(store.put(name(), Buffer.from('x'), options)).rejects.toMatchObject({ code: 'INVALID_NAME' });
    expect(await store.head(name())).toBeNull();
  });
}
