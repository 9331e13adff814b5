import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson, fingerprint } from '../../src/core/canonical-json.ts';
import { isAppError } from '../../src/core/errors.ts';

const refusal = (value: unknown) => {
  try {
    canonicalJson(value);
  } catch (error) {
    return isAppError(error, 'NOT_SERIALIZABLE') ? error.message : `unexpected: ${error}`;
  }
  return 'accepted';
};

describe('canonicalJson', () => {
  it('orders members by UTF-16 code units and writes no white space', () => {
    expect(canonicalJson({ b: 1, a: { d: [1, 'x'], c: null } })).toBe('{"a":{"c":null,"d":[1,"x"]},"b":1}');
    const names = ['\u20ac', '\r', '\ufb33', '1', '\ud83d\ude00', '\u0080', '\u00f6'];
    const members = Object.fromEntries(names.map((name) => [name, 0]));
    expect(Object.keys(JSON.parse(canonicalJson(members)))).toEqual(['1', '\r', '\u0080', '\u00f6', '\u20ac', '\ud83d\ude00', '\ufb33']);
  });

  it('writes numbers as ECMAScript prints them', () => {
    expect(canonicalJson([Number('333333333.33333329'), 1e30, 4.5, 2e-3, 1e-27, -0])).toBe('[333333333.3333333,1e+30,4.5,0.002,1e-27,0]');
  });

  it('leaves out undefined members, and writes dates as JSON does', () => {
    expect(canonicalJson({ a: undefined, at: new Date(0) })).toBe('{"at":"1970-01-01T00:00:00.000Z"}');
  });

  it('means the same value as ordinary JSON, in whatever order members were set', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
        fc.pre(JSON.stringify(value).search(/\\ud[89a-f]/) === -1);
        const text = canonicalJson(value);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(canonicalJson(JSON.parse(text))).toBe(text);
      }),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.integer()), (record) => {
        const reversed = Object.fromEntries(Object.entries(record).reverse());
        expect(canonicalJson(reversed)).toBe(canonicalJson(record));
      }),
    );
  });

  it.each([
    ['undefined', undefined, 'have no JSON form'],
    ['a function', () => 1, 'have no JSON form'],
    ['NaN', { a: Number.NaN }, 'NaN has no JSON form'],
    ['Infinity', [Number.POSITIVE_INFINITY], 'Infinity has no JSON form'],
    ['a bigint', { a: 1n }, 'write it as a string'],
    ['half a surrogate pair', '\ud800', 'surrogate'],
  ])('refuses %s', (_, value, message) => {
    expect(refusal(value)).toContain(message);
  });

  it('refuses a circle but not the same object twice', () => {
    const shared = { x: 1 };
    expect(canonicalJson([shared, shared])).toBe('[{"x":1},{"x":1}]');
    const circle: unknown[] = [];
    circle.push({ circle });
    expect(refusal(circle)).toContain('contains itself');
  });
});

describe('fingerprint', () => {
  it('is the SHA-256 of the canonical form, in hex', () => {
    const expected = createHash('sha256').update('{"a":1,"b":2}').digest('hex');
    expect(fingerprint({ b: 2, a: 1 })).toBe(expected);
    expect(fingerprint({ b: 2, a: 2 })).not.toBe(expected);
  });
});
