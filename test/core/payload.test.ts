import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkPayloadLimit,
  DEFAULT_MAX_PAYLOAD_BYTES,
  DEFAULT_MAX_RESULT_BYTES,
  decodePayload,
  encodeOutput,
  encodePayload,
  HIGHEST_MAX_PAYLOAD_BYTES,
} from '../../src/core/payload.ts';

const MB = 1_048_576;
const encode = (value: unknown, maxBytes = DEFAULT_MAX_PAYLOAD_BYTES) => encodePayload(value, { maxBytes, field: 'payload' });
const code = (encoded: ReturnType<typeof encode>) => (encoded.ok ? 'accepted' : encoded.issue.code);
const decoded = (encoded: ReturnType<typeof encode>) => (encoded.ok ? decodePayload(encoded.payload) : encoded.issue);

describe('encodePayload', () => {
  it('takes a plain object as JSON and bytes as bytes [GM-9.01] [GA-1.03]', () => {
    expect(encode({ a: [1, 'two', null] })).toEqual({
      ok: true,
      payload: { kind: 'json', text: '{"a":[1,"two",null]}' },
    });
    expect(encode(new Uint8Array([0, 255]))).toEqual({
      ok: true,
      payload: { kind: 'bytes', bytes: new Uint8Array([0, 255]) },
    });
    expect(decoded(encode(Buffer.from('hello')))).toEqual(new Uint8Array(Buffer.from('hello')));
  });

  it('takes bytes written in JSON as $bytes', () => {
    expect(decoded(encode({ $bytes: Buffer.from('hello').toString('base64') }))).toEqual(new Uint8Array(Buffer.from('hello')));
    expect(code(encode({ $bytes: 'not base64!' }))).toBe('INVALID_BASE64');
    expect(code(encode({ $bytes: 12 }))).toBe('INVALID_TYPE');
    expect(decoded(encode({ $bytes: 'aGk=', note: 'not alone' }))).toEqual({ $bytes: 'aGk=', note: 'not alone' });
  });

  it('copies bytes, so that the caller may reuse the buffer', () => {
    for (const bytes of [new Uint8Array([1, 2, 3]), Buffer.from([1, 2, 3])]) {
      const encoded = encode(bytes);
      bytes[0] = 9;
      expect(decoded(encoded)).toEqual(new Uint8Array([1, 2, 3]));
    }
  });

  it.each([[[]], [[1]], ['text'], [3], [true], [new Map()], [new Date(0)], [() => 1], [Symbol('s')], [new (class A {})()]])(
    'refuses %s: neither object nor bytes [GA-1.03]',
    (value) => {
      expect(code(encode(value))).toBe('INVALID_TYPE');
    },
  );

  it('requires a payload [GA-1.03]', () => {
    expect(code(encode(undefined))).toBe('REQUIRED');
    expect(code(encode(null))).toBe('REQUIRED');
  });

  it('refuses an object that says itself what its JSON is, because it comes back as something else', () => {
    class Money {
      toJSON = () => ({ cents: 1 });
    }
    expect(encode(new Money())).toMatchObject({ issue: { message: 'payload is a Money; pass what its toJSON() returns' } });
    expect(code(encode({ toJSON: () => ({ a: 1 }) }))).toBe('NOT_SERIALIZABLE');
  });

  it('keeps every JSON object as it is: nothing is read into it [GM-9.05]', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        const text = JSON.stringify(value);
        fc.pre(!('$bytes' in value) && !/\\u0000/.test(text));
        expect(decoded(encode(value))).toEqual(JSON.parse(text));
      }),
    );
  });

  it('keeps text of every script as UTF-8 and refuses what is no valid text [GM-9.04]', () => {
    const value = { text: 'zażółć 日本語 😀 \u001f \\u0000 \\ud800' };
    expect(decoded(encode(value))).toEqual(value);
    expect(code(encode({ a: '\0' }))).toBe('INVALID_TEXT');
    expect(code(encode({ '\0': 1 }))).toBe('INVALID_TEXT');
    expect(code(encode({ a: 'x\\\0' }))).toBe('INVALID_TEXT');
    expect(code(encode({ a: '\ud800' }))).toBe('INVALID_TEXT');
    expect(code(encode({ a: '\udfff' }))).toBe('INVALID_TEXT');
  });

  it('refuses what has no JSON form, with the reason', () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    expect(code(encode(circle))).toBe('NOT_SERIALIZABLE');
    expect(encode({ n: 1n })).toMatchObject({
      issue: { field: 'payload.n', message: 'payload.n is a BigInt; pass a string' },
    });
  });
});

describe('the payload limit', () => {
  const objectOfBytes = (size: number) => ({ a: 'x'.repeat(size - 8) });

  it('is 1 MB by default, to the byte [GM-9.02]', () => {
    expect(DEFAULT_MAX_PAYLOAD_BYTES).toBe(MB);
    expect(code(encode(objectOfBytes(MB)))).toBe('accepted');
    expect(code(encode(objectOfBytes(MB + 1)))).toBe('PAYLOAD_TOO_LARGE');
    expect(code(encode(new Uint8Array(MB)))).toBe('accepted');
    expect(code(encode(new Uint8Array(MB + 1)))).toBe('PAYLOAD_TOO_LARGE');
  });

  it('counts UTF-8 bytes, and bytes in base64 as decoded', () => {
    expect(code(encode({ a: 'é'.repeat(46) }, 100))).toBe('accepted');
    expect(code(encode({ a: 'é'.repeat(47) }, 100))).toBe('PAYLOAD_TOO_LARGE');
    expect(code(encode({ $bytes: Buffer.alloc(100).toString('base64') }, 100))).toBe('accepted');
    expect(code(encode({ $bytes: Buffer.alloc(101).toString('base64') }, 100))).toBe('PAYLOAD_TOO_LARGE');
  });

  it('can be set up to 16 MB and not higher [GM-9.03]', () => {
    expect(HIGHEST_MAX_PAYLOAD_BYTES).toBe(16 * MB);
    expect(checkPayloadLimit(16 * MB)).toBe(null);
    for (const limit of [16 * MB + 1, 0, -1, 1.5, Number.NaN]) {
      expect(checkPayloadLimit(limit)).toMatchObject({ field: 'maxPayloadBytes', code: 'OUT_OF_RANGE' });
    }
    expect(code(encode(new Uint8Array(2 * MB), 16 * MB))).toBe('accepted');
    expect(encode({}, 16 * MB + 1)).toMatchObject({ ok: false, issue: { field: 'maxPayloadBytes' } });
  });
});

describe('encodeOutput', () => {
  it('takes any JSON value or bytes, and nothing as null', () => {
    for (const value of [null, 0, 'done', true, [1], { a: 1 }, new Uint8Array([7])]) {
      expect(decoded(encodeOutput(value))).toEqual(value);
    }
    expect(decoded(encodeOutput(undefined))).toBe(null);
  });

  it('refuses what cannot be kept and what is over 1 MB', () => {
    expect(code(encodeOutput(() => 1))).toBe('NOT_SERIALIZABLE');
    expect(code(encodeOutput(1n))).toBe('NOT_SERIALIZABLE');
    expect(code(encodeOutput('\0'))).toBe('INVALID_TEXT');
    expect(code(encodeOutput('x'.repeat(DEFAULT_MAX_RESULT_BYTES - 2)))).toBe('accepted');
    expect(encodeOutput('x'.repeat(DEFAULT_MAX_RESULT_BYTES - 1))).toMatchObject({
      issue: { field: 'result', code: 'PAYLOAD_TOO_LARGE' },
    });
  });
});
