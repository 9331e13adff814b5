import { createContext, runInContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodePayload, encodeOutput, encodePayload } from '../../src/core/payload.ts';
import { findNotPlain, isPlainJson } from '../../src/core/plain-json.ts';

const PLACE = { field: 'payload', isText: true };
const cycle: Record<string, unknown> = { list: [] };
(cycle.list as unknown[]).push(cycle);
class Order {
  id = 1;
}

/** What is refused, and how the message goes on after the path. */
const REFUSED: readonly [string, unknown, string][] = [
  ['Date', new Date(0), 'is a Date; pass an ISO string such as date.toISOString()'],
  ['invalid Date', new Date(Number.NaN), 'is a Date; pass an ISO string such as date.toISOString()'],
  ['Map', new Map([['a', 1]]), 'is a Map; pass Object.fromEntries(map) or an array'],
  ['Set', new Set([1]), 'is a Set; pass [...set]'],
  ['NaN', Number.NaN, 'is NaN; pass a finite number or null'],
  ['Infinity', Number.POSITIVE_INFINITY, 'is Infinity; pass a finite number or null'],
  ['-Infinity', Number.NEGATIVE_INFINITY, 'is -Infinity; pass a finite number or null'],
  ['BigInt', 10n, 'is a BigInt; pass a string'],
  ['function', () => 1, 'is a function; pass only data'],
  ['symbol', Symbol('s'), 'is a symbol; pass a string'],
  ['class instance', new Order(), 'is an Order; pass a plain object, such as { ...value }'],
  ['URL', new URL('https://example.org'), 'is a URL; pass what its toJSON() returns'],
  ['RegExp', /x/, 'is a RegExp; pass a plain object, such as { ...value }'],
  ['Error', new TypeError('no'), 'is an Error; pass its message'],
  ['Uint8Array', new Uint8Array([1]), 'is a Uint8Array; pass a base64 string, or pass the bytes as the whole value'],
  ['Buffer', Buffer.from('x'), 'is a Buffer; pass a base64 string, or pass the bytes as the whole value'],
  ['ArrayBuffer', new ArrayBuffer(1), 'is an ArrayBuffer; pass a base64 string, or pass the bytes as the whole value'],
  ['Float64Array', new Float64Array(1), 'is a Float64Array; pass a base64 string, or pass the bytes as the whole value'],
  ['boxed number', Object(1), 'is a Number; pass a plain object, such as { ...value }'],
  ['Promise', Promise.resolve(1), 'is a Promise; pass a plain object, such as { ...value }'],
];

const TEXT = 'contains a NUL character or half of a surrogate pair; remove it, or pass the value as bytes';

describe('a value that JSON would change', () => {
  it.each(REFUSED)('%s is refused with its path, wherever it is', (_, value, message) => {
    const refused = (path: string) => ({ ok: false, issue: { field: path, code: 'NOT_SERIALIZABLE', message: `${path} ${message}` } });
    const encode = (payload: unknown) => encodePayload(payload, { maxBytes: 1_000, field: 'payload' });
    expect(encode({ user: { born: value } })).toEqual(refused('payload.user.born'));
    expect(encode({ list: [1, { 'two words': [value] }] })).toEqual(refused('payload.list[1]["two words"][0]'));
    expect(encodeOutput([value])).toEqual(refused('result[0]'));
  });

  it('undefined is refused in an array, holes included, and counts as absent in an object', () => {
    expect(isPlainJson({ a: undefined })).toBe(true);
    // biome-ignore lint/suspicious/noSparseArray: the hole is the point.
    for (const list of [[1, undefined], [1, , 2], Array(2)]) {
      expect(isPlainJson({ list })).toBe(false);
      expect(findNotPlain({ list }, PLACE)?.message).toMatch(/^payload\.list\[[01]\] is undefined; pass null, or leave it out$/);
    }
  });

  it('text that PostgreSQL cannot store is refused with its path, as a value and as a name', () => {
    for (const text of ['\0', 'a\ud800', '\udfffb']) {
      expect(findNotPlain({ a: [text] }, PLACE)).toEqual({ field: 'payload.a[0]', code: 'INVALID_TEXT', message: `payload.a[0] ${TEXT}` });
      const named = findNotPlain({ a: { [text]: 1 } }, PLACE);
      expect(named).toEqual({ field: 'payload.a', code: 'INVALID_TEXT', message: `the name of a member of payload.a ${TEXT}` });
      expect(findNotPlain({ a: text }, { ...PLACE, isText: false })).toBeNull();
    }
  });

  it('a cycle is refused with its path; a value that occurs twice is not one', () => {
    expect(findNotPlain(cycle, PLACE)).toMatchObject({
      field: 'payload.list[0]',
      message: 'payload.list[0] contains itself; remove the cycle',
    });
    const twice = { x: 1 };
    expect(encodeOutput({ a: twice, b: [twice] })).toMatchObject({ ok: true });
  });

  it('nesting that is too deep is refused, and does not end the process', () => {
    let deep: unknown = [];
    for (let level = 0; level < 100_000; level++) deep = [deep];
    expect(encodeOutput(deep)).toMatchObject({ ok: false, issue: { field: 'result', code: 'NOT_SERIALIZABLE' } });
  });

  it('a long path is cut', () => {
    const message = findNotPlain({ ['n'.repeat(5_000)]: 1n }, PLACE)?.message ?? '';
    expect(message).toMatch(/^payload\.n+… is a BigInt/);
    expect(message.length).toBeLessThan(300);
  });
});

describe('a plain value', () => {
  it('is every value that comes back equal, and no other', () => {
    const anything = fc.anything({
      withDate: true,
      withMap: true,
      withSet: true,
      withBigInt: true,
      withTypedArray: true,
      withSparseArray: true,
    });
    fc.assert(
      fc.property(anything, (value) => {
        const issue = findNotPlain(value, { field: 'value', isText: false });
        expect(isPlainJson(value)).toBe(issue === null);
        if (issue === null) expect(withoutZeroSigns(JSON.parse(JSON.stringify(value)))).toEqual(withoutZeroSigns(value));
      }),
      { numRuns: 2_000 },
    );
  });

  it('may come from another realm, as in a test runner, and may have no prototype', () => {
    const foreign = runInContext('({ a: [1, { b: "x" }], c: null })', createContext({}));
    expect(isPlainJson(foreign)).toBe(true);
    expect(isPlainJson(runInContext('({ a: new Map() })', createContext({})))).toBe(false);
    const bare = Object.assign(Object.create(null), { a: 1 });
    const encoded = encodePayload(bare, { maxBytes: 100, field: 'payload' });
    expect(encoded.ok && decodePayload(encoded.payload)).toEqual({ a: 1 });
  });
});

/** JSON has no negative zero. */
function withoutZeroSigns(value: unknown): unknown {
  if (value === 0) return 0;
  if (Array.isArray(value)) return value.map(withoutZeroSigns);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withoutZeroSigns(member)]));
}
