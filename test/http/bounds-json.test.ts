import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { bodyOf, post, serve } from './server-fixture.ts';

const nested = (depth: number, open = '[', close = ']'): string => open.repeat(depth) + close.repeat(depth);
const objects = (depth: number): string => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;
const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

const HOSTILE: readonly (readonly [string, string | Uint8Array, string])[] = [
  ['65 arrays', nested(65), 'TOO_DEEP'],
  ['65 objects', objects(65), 'TOO_DEEP'],
  ['1500 arrays', nested(1_500), 'TOO_DEEP'],
  ['4000 open arrays', '['.repeat(4_000), 'TOO_DEEP'],
  ['600 open objects', '{"a":'.repeat(600), 'TOO_DEEP'],
  ['arrays and objects in turn', '[{"a":'.repeat(40), 'TOO_DEEP'],
  ['depth after a string with brackets', `{"a":"]]]]","b":${nested(64)}}`, 'TOO_DEEP'],
  ['depth after an escaped quote', `{"a":"\\"]]]]","b":${nested(64)}}`, 'TOO_DEEP'],
  ['depth after a string that ends with a backslash', `{"a":"\\\\","b":${nested(64)}}`, 'TOO_DEEP'],
  ['depth behind closing brackets that open nothing', `]]]]${nested(66)}`, 'INVALID_JSON'],
  ['a NUL escape', '{"a":"\\u0000"}', 'INVALID_TEXT'],
  ['a NUL escape within text', '{"a":"x\\u0000y"}', 'INVALID_TEXT'],
  ['a NUL escape in a name', '{"a\\u0000":1}', 'INVALID_TEXT'],
  ['a NUL escape in a list', '["\\u0000"]', 'INVALID_TEXT'],
  ['a NUL escape behind an escaped backslash', '{"a":"\\\\\\u0000"}', 'INVALID_TEXT'],
  ['a NUL byte in a string', '{"a":"\0"}', 'INVALID_JSON'],
  ['a NUL byte between tokens', '{"a":\0 1}', 'INVALID_JSON'],
  ['a NUL byte alone', '\0', 'INVALID_JSON'],
  ['a lone high surrogate', '{"a":"\\ud800"}', 'INVALID_TEXT'],
  ['a lone low surrogate', '{"a":"\\udc00"}', 'INVALID_TEXT'],
  ['surrogates in the wrong order', '{"a":"\\udc00\\ud800"}', 'INVALID_TEXT'],
  ['a high surrogate before a letter', '{"a":"\\ud83dx"}', 'INVALID_TEXT'],
  ['two high surrogates', '{"a":"\\ud83d\\ud83d"}', 'INVALID_TEXT'],
  ['a lone surrogate in upper case', '{"a":"\\uD800"}', 'INVALID_TEXT'],
  ['a lone surrogate in a name', '{"\\udfff":1}', 'INVALID_TEXT'],
  ['a lone surrogate deep inside', '{"a":[{"b":["\\udead"]}]}', 'INVALID_TEXT'],
  ['a surrogate in UTF-8', bytes(0x22, 0xed, 0xa0, 0x80, 0x22), 'INVALID_TEXT'],
  ['an overlong slash', bytes(0x22, 0xc0, 0xaf, 0x22), 'INVALID_TEXT'],
  ['a byte that is never UTF-8', bytes(0x22, 0xff, 0x22), 'INVALID_TEXT'],
  ['a cut UTF-8 sequence', bytes(0x22, 0xe2, 0x82, 0x22), 'INVALID_TEXT'],
  ['a code point beyond Unicode', bytes(0x22, 0xf4, 0x90, 0x80, 0x80, 0x22), 'INVALID_TEXT'],
  ['Latin-1', bytes(0x22, 0xe9, 0x22), 'INVALID_TEXT'],
  ['UTF-16', new Uint8Array(Buffer.from('\ufeff{"a":1}', 'utf16le')), 'INVALID_TEXT'],
  ['a byte order mark', '\ufeff{"a":1}', 'INVALID_JSON'],
  ['1e400', '{"a":1e400}', 'OUT_OF_RANGE'],
  ['-1e400', '{"a":-1e400}', 'OUT_OF_RANGE'],
  ['1E+999', '[1E+999]', 'OUT_OF_RANGE'],
  ['1.5e309', '1.5e309', 'OUT_OF_RANGE'],
  ['2e308', '{"a":{"b":2e308}}', 'OUT_OF_RANGE'],
  ['400 digits', `{"a":1${'0'.repeat(400)}}`, 'OUT_OF_RANGE'],
  ['400 digits and a fraction', `{"a":${'9'.repeat(400)}.5}`, 'OUT_OF_RANGE'],
  ['__proto__', '{"__proto__":{"admin":true}}', 'FORBIDDEN_MEMBER'],
  ['__proto__ with null', '{"__proto__":null}', 'FORBIDDEN_MEMBER'],
  ['__proto__ deep inside', '{"a":[{"b":{"__proto__":1}}]}', 'FORBIDDEN_MEMBER'],
  ['__proto__ in escapes', '{"\\u005f\\u005fproto\\u005f\\u005f":{"admin":true}}', 'FORBIDDEN_MEMBER'],
  ['__proto__ half in escapes', '{"__pr\\u006fto__":{}}', 'FORBIDDEN_MEMBER'],
  ['constructor.prototype', '{"constructor":{"prototype":{"admin":true}}}', 'FORBIDDEN_MEMBER'],
  ['constructor.prototype deep inside', '[{"a":{"constructor":{"prototype":1}}}]', 'FORBIDDEN_MEMBER'],
  ['constructor.prototype in escapes', '{"c\\u006fnstructor":{"pr\\u006ftotype":{}}}', 'FORBIDDEN_MEMBER'],
  ['NaN', '{"a":NaN}', 'INVALID_JSON'],
  ['Infinity', '{"a":Infinity}', 'INVALID_JSON'],
  ['undefined', '{"a":undefined}', 'INVALID_JSON'],
  ['single quotes', "{'a':1}", 'INVALID_JSON'],
  ['a name without quotes', '{a:1}', 'INVALID_JSON'],
  ['a trailing comma', '{"a":1,}', 'INVALID_JSON'],
  ['a comment', '{"a":1/* x */}', 'INVALID_JSON'],
  ['two values', '{"a":1}{"b":2}', 'INVALID_JSON'],
  ['a cut object', '{"a":', 'INVALID_JSON'],
  ['a cut string', '{"a":"b', 'INVALID_JSON'],
  ['a cut escape', '{"a":"\\u00"}', 'INVALID_JSON'],
  ['a backslash at the end', '{"a":"\\', 'INVALID_JSON'],
  ['an unknown escape', '{"a":"\\x41"}', 'INVALID_JSON'],
  ['a line break in a string', '{"a":"\n"}', 'INVALID_JSON'],
  ['a leading zero', '{"a":01}', 'INVALID_JSON'],
  ['a plus sign', '{"a":+1}', 'INVALID_JSON'],
  ['hexadecimal', '{"a":0x10}', 'INVALID_JSON'],
  ['blanks only', '   ', 'INVALID_JSON'],
  ['a form', 'a=1&b=2', 'INVALID_JSON'],
  ['wrong brackets', '{"a":[1}]', 'INVALID_JSON'],
];

describe('a hostile JSON body', () => {
  it(`is refused with a reason, in each of ${HOSTILE.length} forms, and leaves the server as it was`, async () => {
    const { url } = await serve();
    for (const [what, body, reason] of HOSTILE) {
      const answer = await post(`${url}/test/echo`, body);
      const told = await bodyOf(answer);
      expect({ what, status: answer.status, code: told.code, reason: told.details[0].code }).toEqual({
        ...{ what, status: 400, code: 'INVALID_REQUEST', reason },
      });
    }
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
    expect(await (await post(`${url}/test/echo`, '{"a":1}')).json()).toEqual({ body: { a: 1 } });
  });

  it('names the member that is wrong', async () => {
    const { url } = await serve();
    const answer = await post(`${url}/test/echo`, '{"jobs":[{},{"tags":{"x":"\\u0000"}}]}');
    expect((await bodyOf(answer)).details).toEqual([
      {
        field: 'jobs[1].tags.x',
        code: 'INVALID_TEXT',
        message: 'jobs[1].tags.x must not contain a NUL character',
      },
    ]);
  });
});

const HARMLESS: readonly (readonly [string, string])[] = [
  ['64 arrays', nested(64)],
  ['64 objects', objects(64)],
  ['brackets in a string', JSON.stringify({ a: '['.repeat(200) })],
  ['many arrays side by side', JSON.stringify({ a: Array.from({ length: 300 }, () => []) })],
  ['an emoji in escapes', '{"a":"\\ud83d\\ude00"}'],
  ['an emoji', '{"a":"😀"}'],
  ['the text \\u0000 behind an escaped backslash', '{"a":"\\\\u0000"}'],
  ['1e308', '{"a":1e308}'],
  ['300 digits of a fraction', `{"a":0.${'1'.repeat(310)}}`],
  ['a number too small to tell from zero', '{"a":1e-400}'],
  ['__proto__ as a value', '{"a":"__proto__"}'],
  ['constructor as a text', '{"constructor":"Ada"}'],
  ['constructor without prototype', '{"constructor":{"name":"Ada"}}'],
  ['prototype alone', '{"prototype":{"a":1}}'],
  ['null', 'null'],
  ['a text', '"a"'],
  ['control characters in escapes', '{"a":"\\u0001\\u001f"}'],
  ['U+FFFF', '{"a":"\\uffff"}'],
];

describe('a body that only looks hostile', () => {
  it.each(HARMLESS)('is read: %s', async (_what, body) => {
    const { url } = await serve();
    const answer = await post(`${url}/test/echo`, body);
    expect({ status: answer.status, body: await bodyOf(answer) }).toEqual({
      status: 200,
      body: { body: JSON.parse(body) },
    });
  });

  it('may be absent, with a content type or without', async () => {
    const { url } = await serve();
    expect(await (await post(`${url}/test/echo`, '')).json()).toEqual({ body: null });
    expect(await (await fetch(`${url}/test/echo`, { method: 'POST' })).json()).toEqual({ body: null });
  });
});

describe('a body that is not plain JSON', () => {
  const gzip = { 'content-encoding': 'gzip' };
  const zipped = new Uint8Array(gzipSync('{"a":1}'));

  it('is read when it is gzipped', async () => {
    const { url } = await serve();
    expect(await (await post(`${url}/test/echo`, zipped, gzip)).json()).toEqual({ body: { a: 1 } });
    const hostile = await post(`${url}/test/echo`, new Uint8Array(gzipSync(nested(65))), gzip);
    expect((await bodyOf(hostile)).details[0].code).toBe('TOO_DEEP');
  });

  it.each([
    ['gzip that is none', '{"a":1}', 'gzip', 'INVALID_ENCODING'],
    ['gzip that is cut', zipped.subarray(0, 15), 'gzip', 'INVALID_ENCODING'],
    ['gzip with a wrong sum', zipped.with(-5, 0xff).with(-6, 0xff), 'gzip', 'INVALID_ENCODING'],
    ['two encodings', new Uint8Array(gzipSync(zipped)), 'gzip, gzip', 'UNSUPPORTED_ENCODING'],
    ['brotli', zipped, 'br', 'UNSUPPORTED_ENCODING'],
    ['deflate', zipped, 'deflate', 'UNSUPPORTED_ENCODING'],
    ['an encoding nobody knows', zipped, 'rot13', 'UNSUPPORTED_ENCODING'],
  ])('is refused: %s', async (_what, body, encoding, reason) => {
    const { url } = await serve();
    const answer = await post(`${url}/test/echo`, body, { 'content-encoding': encoding });
    expect({ status: answer.status, reason: (await bodyOf(answer)).details[0].code }).toEqual({ status: 400, reason });
  });

  it.each(['text/plain', 'application/xml', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'nonsense'])(
    'is refused as %s',
    async (type) => {
      const { url } = await serve();
      const answer = await post(`${url}/test/echo`, '{"a":1}', { 'content-type': type });
      expect({ status: answer.status, body: await bodyOf(answer) }).toMatchObject({
        status: 400,
        body: { code: 'INVALID_REQUEST', details: [{ field: 'body', code: 'UNSUPPORTED_MEDIA_TYPE' }] },
      });
    },
  );

  it('is accepted with a charset after the type', async () => {
    const { url } = await serve();
    const answer = await post(`${url}/test/echo`, '{"a":1}', { 'content-type': 'application/json; charset=utf-8' });
    expect(answer.status).toBe(200);
  });
});
