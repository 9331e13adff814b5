/** Requests made from the OpenAPI document, with names, sizes and encodings that a server may trip over. */
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import type { OpenApi } from '../http/contract.ts';
import { hostileName } from './names.ts';
import { type Resolve, type Schema, valueFor } from './schema-values.ts';

export type GeneratedRequest = {
  method: string;
  /** The path in the document. */
  template: string;
  /** The path and the query that are sent. */
  target: string;
  headers: Record<string, string>;
  /** Null for a request without a body. */
  body: Buffer | null;
};

/** `keysAt`: the keys that go with most requests to a path. `ids`: things that exist, by the name of their parameter. */
export type Known = { keysAt(path: string): readonly string[]; ids: Readonly<Record<string, readonly string[]>> };

type Parameter = { name: string; in: string; schema: Schema };
type Documented = { parameters?: Parameter[]; requestBody?: { content: Record<string, { schema: Schema }> } };

const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000';
const LARGE = 100_000;

export function requestsOf(document: OpenApi, known: Known): fc.Arbitrary<GeneratedRequest> {
  const resolve: Resolve = (reference) => {
    const parts = reference.replace('#/', '').split('/');
    return parts.reduce<unknown>((at, part) => (at as Record<string, unknown>)[part], document) as Schema;
  };
  const each = Object.entries(document.paths).flatMap(([template, methods]) =>
    Object.entries(methods).map(([method, operation]) => requestOf(method, template, operation as Documented, { known, resolve })),
  );
  return fc.oneof(...each);
}

type Source = { known: Known; resolve: Resolve };

function requestOf(method: string, template: string, operation: Documented, source: Source): fc.Arbitrary<GeneratedRequest> {
  const { parameters = [], requestBody } = operation;
  const schema = requestBody?.content['application/json']?.schema;
  const body = schema === undefined ? fc.constant(null) : bodyOf(schema, source.resolve);
  return fc
    .record({
      target: targetOf(template, parameters, source),
      headers: headersOf(template, parameters, source),
      sent: fc.oneof({ weight: 12, arbitrary: body }, { weight: 1, arbitrary: ODD_BODIES }),
    })
    .map(({ target, headers, sent }) => {
      const typed = sent === null ? {} : { 'content-type': 'application/json', ...sent.headers };
      return { method: method.toUpperCase(), template, target, headers: { ...typed, ...headers }, body: sent?.bytes ?? null };
    });
}

function targetOf(template: string, parameters: readonly Parameter[], { known, resolve }: Source): fc.Arbitrary<string> {
  const names = [...template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
  const ids = names.map((name) => {
    const existing = known.ids[name] ?? [];
    return fc.oneof({ weight: 5, arbitrary: fc.constantFrom(UNKNOWN_ID, ...existing) }, { weight: 1, arbitrary: hostileName });
  });
  const queries = parameters
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, schema }) => fc.tuple(fc.constant(name), valueFor(schema, resolve), fc.nat(9)));
  const more = fc.oneof({ weight: 9, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.array(fc.tuple(hostileName, hostileName)) });
  return fc.tuple(fc.tuple(...ids), fc.tuple(...queries), more).map(([given, chosen, added]) => {
    let next = 0;
    const path = template.replaceAll(/\{\w+\}/g, () => encoded(String(given[next++])) || '%20');
    const pairs = [...chosen.filter(([, , chance]) => chance < 3).map(([name, value]) => [name, text(value)]), ...added];
    return pairs.length === 0 ? path : `${path}?${pairs.map((pair) => pair.map((part) => encoded(String(part))).join('=')).join('&')}`;
  });
}

const text = (value: unknown): string => (typeof value === 'object' ? JSON.stringify(value) : String(value));

/** Byte by byte, so that halves of surrogate pairs are sent too. Long enough for a refusal, short enough for the line of a request. */
const encoded = (name: string): string =>
  [...Buffer.from(name.slice(0, 500))].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');

/** What a header may contain, as bytes. */
const headerValue = hostileName.map((name) =>
  Buffer.from(name.slice(0, 2_000))
    .toString('latin1')
    .replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, '?'),
);

function headersOf(template: string, parameters: readonly Parameter[], { known }: Source): fc.Arbitrary<Record<string, string>> {
  const named = parameters.filter((parameter) => parameter.in === 'header').map(({ name }) => name);
  const key = fc.oneof(
    { weight: 15, arbitrary: fc.constantFrom(...known.keysAt(template)).map((each) => ({ authorization: `Bearer ${each}` })) },
    { weight: 1, arbitrary: headerValue.map((value) => ({ authorization: value })) },
    { weight: 1, arbitrary: fc.constant({}) },
  );
  const others = fc.dictionary(
    fc.constantFrom(
      ...named,
      'accept',
      'x-request-id',
      'traceparent',
      'idempotency-key',
      'content-type',
      'content-encoding',
      'x-forwarded-for',
    ),
    headerValue,
    { maxKeys: 2 },
  );
  const more = fc.oneof({ weight: 5, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: others });
  return fc.tuple(key, more).map(([one, other]) => ({ ...one, ...other }));
}

type Sent = { bytes: Buffer; headers?: Record<string, string> };

function bodyOf(schema: Schema, resolve: Resolve): fc.Arbitrary<Sent> {
  const json = valueFor(schema, resolve).map((value) => Buffer.from(JSON.stringify(value) ?? 'null'));
  return fc.tuple(json, fc.nat(19)).map(([bytes, chance]): Sent => {
    if (chance === 0) return { bytes: gzipSync(bytes), headers: { 'content-encoding': 'gzip' } };
    if (chance === 1) return { bytes: deflateSync(bytes), headers: { 'content-encoding': 'deflate' } };
    if (chance === 2) return { bytes: brotliCompressSync(bytes), headers: { 'content-encoding': 'br' } };
    // Cut off, which is no longer JSON and may end within a character.
    if (chance === 3) return { bytes: bytes.subarray(0, bytes.length - 1) };
    return { bytes };
  });
}

const array = (item: string): string => `[${Array(LARGE).fill(item).join(',')}]`;
const manyMembers = (): string => `{${Array.from({ length: LARGE }, (_, at) => `"member_${at}":1`).join(',')}}`;

/** Sizes and bytes that no schema describes. Each is built when it is chosen. */
const ODD_BODIES: fc.Arbitrary<Sent> = fc
  .constantFrom<(() => Sent)[]>(
    () => ({ bytes: Buffer.from(`{"types":${array('1')}}`) }),
    () => ({ bytes: gzipSync(`{"types":${array('1')}}`), headers: { 'content-encoding': 'gzip' } }),
    () => ({ bytes: Buffer.from(manyMembers()) }),
    () => ({ bytes: Buffer.from(`{"type":"noop","payload":${manyMembers()}}`) }),
    () => ({ bytes: Buffer.from(`{"type":"noop","payload":{},"tags":${manyMembers()}}`) }),
    () => ({ bytes: Buffer.from(`{"jobs":${array('{}')}}`) }),
    () => ({ bytes: Buffer.from(`{"job_ids":${array('"x"')}}`) }),
    () => ({ bytes: Buffer.from(`{"type":"noop","payload":${'['.repeat(LARGE)}${']'.repeat(LARGE)}}`) }),
    () => ({ bytes: Buffer.from(`{"type":${JSON.stringify('x'.repeat(LARGE))}}`) }),
    () => ({ bytes: gzipSync(Buffer.alloc(4 * 1_048_576, ' ')), headers: { 'content-encoding': 'gzip' } }),
    () => ({ bytes: Buffer.from('not gzip'), headers: { 'content-encoding': 'gzip' } }),
    () => ({ bytes: Buffer.from([0xff, 0xfe, 0x7b, 0x7d]) }),
    () => ({ bytes: Buffer.from('\ufeff{}') }),
    () => ({ bytes: Buffer.from('{"type":"a","type":"b"}') }),
    () => ({ bytes: Buffer.from('1e999') }),
    () => ({ bytes: Buffer.alloc(0) }),
  )
  .map((make) => make());
