import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { manifest, useIngest } from './ingest-fixture.ts';

/** Downloads nothing, so that nothing disturbs the limits. */
const server = useIngest({ concurrency: 0 });

const refused = async (body: unknown, headers: Record<string, string> = {}) => {
  const answer = await server.submit({ body: typeof body === 'string' ? body : JSON.stringify(body), headers });
  return `${answer.status} ${answer.body.error?.code}`;
};

const INVALID = '400 INVALID_PAYLOAD';
const resource = (over: object = {}) => ({ id: 'a', url: 'https://example.com/a', ...over });
const one = (over: object) => manifest({ resources: [resource(over)] });

test('an accepted manifest gets a version 7 id, the address of its metadata and the number of its resources [FB-1.01] [FB-1.38] [FB-1.41] [FB-1.43] [FB-1.44] [FB-1.51] [FB-1.52] [FB-1.53] [FB-1.54] [FB-2.05] [FB-2.06] [FB-2.08] [FB-2.12]', async () => {
  const { status, body } = await server.submit({ body: manifest({ resources: [resource(), resource({ id: 'b' })] }) });
  expect(status).toBe(202);
  expect(body).toEqual({
    job_id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
    manifest_key: `s3://fetchbox/manifests/default/${body.job_id}/metadata.json`,
    resource_count: 2,
  });
  const job = (await server.get(`/jobs/${body.job_id}`)).body;
  expect(job).toMatchObject({
    job_id: body.job_id,
    job_type: 'default',
    status: 'queued',
    resource_count: 2,
    resource_total: 2,
    resource_completed: 0,
    manifest_key: body.manifest_key,
  });
  for (const time of [job.created_at, job.updated_at]) {
    expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(Math.abs(Date.parse(time) - Date.now())).toBeLessThan(600_000);
  }
});

test('metadata.json has the bytes of the member as they were sent, and manifest.json the whole body with its hash [FB-1.16] [FB-1.17] [FB-1.40] [FB-1.42]', async () => {
  const metadata = '{ "n": 1.0e2,  "big": 12345678901234567890, "text": "\\u00e9 \\/ é", "n": 2, "deep": [ {"resources": "no"}, "}" ] }';
  const body = `\n{"manifest_version":"v1","met\\u0061data": ${metadata} ,"resources":[{"id":"a","url":"https://example.com/a"}]}\n`;
  const answer = await server.submit({ body });
  expect(answer.status).toBe(202);
  const folder = `manifests/default/${answer.body.job_id}`;
  expect(server.object('fetchbox', `${folder}/metadata.json`).toString()).toBe(metadata);
  expect(server.object('fetchbox', `${folder}/manifest.json`).toString()).toBe(body);
  const job = (await server.get(`/jobs/${answer.body.job_id}`)).body;
  expect(job.manifest_sha256).toBe(createHash('sha256').update(body).digest('hex'));
});

test.each([
  ['no Content-Type', { 'content-type': '' }],
  ['another Content-Type [FB-1.05]', { 'content-type': 'text/plain' }],
  ['another Content-Encoding', { 'content-encoding': 'br' }],
  ['two encodings', { 'content-encoding': 'gzip, gzip' }],
  ['gzip that is none', { 'content-encoding': 'gzip' }],
  ['a key that is too long', { 'x-fetchbox-idempotency-key': 'k'.repeat(257) }],
])('headers with %s are refused with 400', async (_, headers) => {
  expect(await refused(manifest(), headers)).toBe(INVALID);
});

test('a missing or empty job type is refused with 400 [FB-1.06] [FB-1.07]', async () => {
  for (const headers of [{}, { 'x-fetchbox-job-type': ' ' }] as Record<string, string>[]) {
    const { status, body } = await server.submit({ jobType: null, headers, body: manifest() });
    expect([status, body.error.code]).toEqual([400, 'INVALID_PAYLOAD']);
    expect(body.error.message).toContain('X-Fetchbox-Job-Type');
  }
});

test.each(['gallery', '__proto__', 'constructor', '../default', 'default/..', 'a'.repeat(101), 'de fault', '%2e%2e'])(
  'a job type without a section, such as %s, is refused with 403 [FB-1.57]',
  async (jobType) => {
    const { status, body } = await server.submit({ jobType, body: manifest() });
    expect([status, body.error.code]).toEqual([403, 'UNSUPPORTED_JOB_TYPE']);
    expect(Object.keys(body.error).sort()).toEqual(['code', 'message', 'request_id']);
  },
);

test.each([
  ['is no JSON', '{'],
  ['is empty', ''],
  ['is a list', '[]'],
  ['is null', 'null'],
  ['has no version [FB-1.13]', manifest({ manifest_version: undefined })],
  ['has another version [FB-1.14]', manifest({ manifest_version: 'v2' })],
  ['has no metadata [FB-1.15]', manifest({ metadata: undefined })],
  ['has a list as metadata [FB-1.15]', manifest({ metadata: [] })],
  ['has null as metadata [FB-1.15]', manifest({ metadata: null })],
  ['has no resources [FB-1.18]', { manifest_version: 'v1', metadata: {} }],
  ['has an object as resources [FB-1.18]', manifest({ resources: {} })],
  ['has an empty list of resources [FB-1.19]', manifest({ resources: [] })],
  ['has a string as attributes [FB-1.31]', manifest({ attributes: 'x' })],
  ['has a resource that is null', manifest({ resources: [null] })],
  ['has a resource without an id [FB-1.22]', one({ id: undefined })],
  ['has a resource with an empty id [FB-1.22]', one({ id: '' })],
  ['has a resource with a number as its id [FB-1.22]', one({ id: 5 })],
  ['has a resource without a url [FB-1.25]', one({ url: undefined })],
  ['has a relative url [FB-1.25]', one({ url: '/a' })],
  ['has a list of headers [FB-1.27]', one({ headers: [] })],
  ['has a header that is a number [FB-1.27]', one({ headers: { a: 1 } })],
  ['has a header name with a space', one({ headers: { 'a b': 'x' } })],
  ['has a header value with a line break', one({ headers: { a: 'x\r\nHost: y' } })],
  ['has a tag that is a list [FB-1.29]', one({ tags: { a: [] } })],
  ['has a NUL in an id', '{"manifest_version":"v1","metadata":{},"resources":[{"id":"a\\u0000","url":"https://e.com"}]}'],
  ['has half of a surrogate pair', '{"manifest_version":"v1","metadata":{},"resources":[{"id":"\\ud800","url":"https://e.com"}]}'],
  [
    'has __proto__ as a header',
    '{"manifest_version":"v1","metadata":{},"resources":[{"id":"a","url":"https://e.com","headers":{"__proto__":"x"}}]}',
  ],
  ['is nested too deeply', `{"manifest_version":"v1","metadata":{"a":${'['.repeat(100)}${']'.repeat(100)}},"resources":[]}`],
])('a body that %s is refused with 400 [FB-1.37] [FB-1.55]', async (_, body) => {
  expect(await refused(body)).toBe(INVALID);
});

const ids = (count: number) => Array.from({ length: count }, (_, index) => resource({ id: `r${index}` }));

test('1000 resources are accepted and 1001 are not [FB-1.20]', async () => {
  const { status, body } = await server.submit({ body: manifest({ resources: ids(1_000) }) });
  expect([status, body.resource_count]).toEqual([202, 1_000]);
  expect(await refused(manifest({ resources: ids(1_001) }))).toBe(INVALID);
});

test('two resources with one id are refused, and the error names both [FB-1.23]', async () => {
  const { status, body } = await server.submit({ body: manifest({ resources: [resource(), resource({ id: 'b' }), resource()] }) });
  expect(status).toBe(400);
  expect(body.error).toMatchObject({ code: 'INVALID_PAYLOAD', details: [{ field: 'resources[2].id', code: 'DUPLICATE' }] });
  expect(body.error.message).toContain('resources[0]');
});

test('an id may have 128 characters, each a code point, and not 129 [FB-1.24]', async () => {
  for (const letter of ['x', '😀', 'é']) {
    expect((await server.submit({ body: one({ id: letter.repeat(128) }) })).status).toBe(202);
    expect(await refused(one({ id: letter.repeat(129) }))).toBe(INVALID);
  }
});

const headers = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`x-h${index}`, 'v']));

test('a map of headers may have 10 keys, and not 11 or 100 000 [FB-1.35]', async () => {
  expect((await server.submit({ body: one({ headers: headers(10) }) })).status).toBe(202);
  expect(await refused(one({ headers: headers(11) }))).toBe(INVALID);
  expect(await refused(one({ headers: headers(100_000) }))).toBe(INVALID);
});

test('a header value may have 1024 bytes, and not 1025 [FB-1.36]', async () => {
  expect((await server.submit({ body: one({ headers: { a: 'x'.repeat(1_024) } }) })).status).toBe(202);
  expect(await refused(one({ headers: { a: 'x'.repeat(1_025) } }))).toBe(INVALID);
  expect(await refused(one({ headers: { a: `${'x'.repeat(1_023)}é` } }))).toBe(INVALID);
});

test('a header may be named like a member of every object', async () => {
  const names = { constructor: 'a', toString: 'b', hasOwnProperty: 'c' };
  expect((await server.submit({ body: one({ headers: names, tags: names }) })).status).toBe(202);
});

/** A manifest of exactly so many bytes. */
function sized(bytes: number): Buffer {
  const text = JSON.stringify(manifest({ metadata: { pad: '' } }));
  return Buffer.from(text.replace('"pad":""', `"pad":"${'x'.repeat(bytes - text.length)}"`));
}

const LIMIT = 5 * 1_048_576;

test('a manifest may have 5 MB after decompression and not a byte more, plain or compressed [FB-1.08] [FB-1.09] [FB-1.33] [FB-1.58]', async () => {
  expect(sized(LIMIT)).toHaveLength(LIMIT);
  const gzip = { 'content-encoding': 'gzip' };
  const plain = await server.submit({ body: sized(LIMIT) });
  const packed = await server.submit({ body: gzipSync(sized(LIMIT)), headers: gzip });
  expect([plain.status, packed.status]).toEqual([202, 202]);
  const keyOf = (id: string) => `manifests/default/${id}/manifest.json`;
  const first = server.object('fetchbox', keyOf(plain.body.job_id));
  expect(first.equals(server.object('fetchbox', keyOf(packed.body.job_id)))).toBe(true);
  for (const [body, headers] of [
    [sized(LIMIT + 1), {}],
    [gzipSync(sized(LIMIT + 1)), gzip],
  ] as const) {
    const answer = await server.submit({ body, headers });
    expect([answer.status, answer.body.error.code]).toEqual([413, 'PAYLOAD_TOO_LARGE']);
  }
});

test('a small gzip that inflates to 1 GiB is refused with 413 while little memory is used [FB-1.34]', async () => {
  // Far more than the rest of the process takes or gives back meanwhile, so that its memory says whether the content was in it.
  const bomb = Buffer.concat(Array(16).fill(gzipSync(Buffer.alloc(64 * 1_048_576, ' '))));
  expect(bomb.length).toBeLessThan(1_100_000);
  const before = process.memoryUsage().rss;
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => server.submit({ body: bomb, headers: { 'content-encoding': 'gzip' } })),
  );
  for (const { status, body } of answers) expect([status, body.error.code]).toEqual([413, 'PAYLOAD_TOO_LARGE']);
  expect(process.memoryUsage().rss - before).toBeLessThan(512 * 1_048_576);
  const settled = process.memoryUsage().rss;
  expect((await server.submit({ body: bomb, headers: { 'content-encoding': 'gzip' } })).status).toBe(413);
  expect(process.memoryUsage().rss - settled).toBeLessThan(256 * 1_048_576);
});

test('metadata and attributes may have any content, and a hundred thousand members [FB-1.16] [FB-1.32]', async () => {
  const metadata = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`m${index}`, index]));
  const attributes = {
    tenant: 'crawler-a',
    crawl_id: '847458834325543643',
    crawled_at: '2024-05-01T10:00Z',
    priority: 'normal',
    more: [1, null],
  };
  expect((await server.submit({ body: manifest({ metadata, attributes }) })).status).toBe(202);
});

test('a url with another scheme passes the ingest, because workers check it [FB-1.26]', async () => {
  expect((await server.submit({ body: one({ url: 'ftp://example.com/a' }) })).status).toBe(202);
});

test('an error response has a code, a message and the id of the request', async () => {
  const { body, headers } = await server.submit({ body: manifest({ resources: [] }) });
  expect(body.error).toMatchObject({ code: 'INVALID_PAYLOAD', request_id: headers.get('x-request-id') });
  expect(body.error.message).toContain('resources must have 1 to 1000 entries');
});

test('a refused manifest leaves no job, no task and no object behind [FB-1.37]', async () => {
  const count = async () => {
    const { rows } = await server.database.maintenance.query(
      // Not all jobs: the schedules of maintenance add their own at any moment.
      `SELECT (SELECT count(*) FROM millrace.ingest_jobs) + (SELECT count(*) FROM millrace.jobs WHERE job_type LIKE 'fetchbox.%')
         + (SELECT count(*) FROM millrace.ingest_intents) AS n`,
    );
    return [Number(rows[0].n), server.objects('fetchbox').length];
  };
  const before = await count();
  expect(await refused(manifest({ resources: [resource(), resource()] }))).toBe(INVALID);
  expect(await count()).toEqual(before);
});
