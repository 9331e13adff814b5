import { expect, test } from 'vitest';
import { PermanentError } from '../../src/core/failure.ts';
import { type DownloadTask, type IngestHandlerContext, type IngestManifest, registerIngestHandler } from '../../src/core/ingest/handler.ts';
import { manifest, useIngest } from './ingest-fixture.ts';

const seen: { manifest: IngestManifest; context: IngestHandlerContext }[] = [];
/** What `buildTasks` returns or throws. */
let build: (prepared: IngestManifest) => readonly DownloadTask[] = ({ resources }) => resources.map(({ id }) => ({ resourceId: id }));

registerIngestHandler('test::Handler', {
  prepareManifest(given, context) {
    seen.push({ manifest: given, context });
    return { ...given, resources: given.resources.map((each) => ({ ...each, url: each.url.replace('example.com', 'cdn.example.com') })) };
  },
  buildTasks: (prepared) => build(prepared),
  storage: ({ resourceId }) => (resourceId === 'special' ? { bucket: 'elsewhere', key: 'a/b', metadata: { owner: 'me' } } : {}),
});

const server = useIngest({
  concurrency: 0,
  toml: `
[job_types.custom]
handler = "test::Handler"
default_headers = { "User-Agent" = "FetchBox/1.0", "X-Both" = "default" }
[job_types.custom.proxy]
primary = "eu"
fallbacks = ["global", "emergency"]
[job_types.custom.options]
max_parallel_downloads = 2
colour = "red"
[job_types.limited.options]
max_parallel_downloads = 2
[job_types.plain]
default_headers = { "User-Agent" = "FetchBox/1.0" }
`,
});

// biome-ignore lint/suspicious/noExplicitAny: the test looks at what workers get
async function tasksOf(jobId: string): Promise<any[]> {
  const text = `SELECT j.payload, j.priority, j.queue, j.max_attempts, l.concurrency FROM millrace.ingest_resources r JOIN millrace.jobs j ON j.id = r.task_id
    LEFT JOIN millrace.limits l ON l.id = j.limit_id WHERE r.job_id = $1 ORDER BY r.position`;
  return (await server.database.api.query(text, [jobId])).rows;
}

test('a retry of a cancelled job keeps the limit of its downloads [C62] [FB-3.12]', async () => {
  const resources = ['a', 'b', 'c'].map((id) => resource({ id }));
  const jobId = await server.accepted({ jobType: 'limited', resources });
  const first = await tasksOf(jobId);
  await server.operate('POST', `/jobs/${jobId}/cancel`);
  expect((await server.operate('POST', `/jobs/${jobId}/retry`)).body).toEqual({ retried: 3 });
  expect(await tasksOf(jobId)).toEqual(first);
  expect(first.map(({ concurrency }) => concurrency)).toEqual([2, 2, 2]);
});

const resource = (over: object = {}) => ({ id: 'a', url: 'https://example.com/a', ...over });

test('the default handler uses the manifest as it is, and combines the headers [FB-1.28] [FB-1.46] [FB-3.18] [FB-3.19] [FB-3.21] [FB-3.22] [FB-3.26] [FB-3.27] [FB-3.28] [C128]', async () => {
  const resources = [
    resource({ headers: { 'user-agent': 'Mine', Referer: 'https://example.com' }, tags: { content_type: 'image/jpeg' } }),
    resource({ id: 'b' }),
  ];
  const jobId = await server.accepted({ jobType: 'plain', resources });
  const [a, b] = await tasksOf(jobId);
  expect(a.payload).toEqual({
    jobId,
    jobType: 'plain',
    resourceId: 'a',
    url: 'https://example.com/a',
    headers: [
      ['user-agent', 'Mine'],
      ['Referer', 'https://example.com'],
    ],
    proxies: [],
    storage: { bucket: 'fetchbox', key: `plain/${jobId}/a`, metadata: [['content_type', 'image/jpeg']] },
    tags: [['content_type', 'image/jpeg']],
  });
  expect(b.payload.headers).toEqual([['User-Agent', 'FetchBox/1.0']]);
  expect(a).toMatchObject({ queue: 'q:exports', max_attempts: 5, concurrency: null });
});

test('a handler sees the manifest and its options, and its words win [FB-1.30] [FB-1.32] [FB-1.45] [FB-3.09] [FB-3.12] [FB-3.14] [FB-3.15] [FB-3.17] [FB-3.19] [FB-3.20] [FB-3.23] [FB-3.24]', async () => {
  build = ({ resources }) =>
    resources.map(({ id }) =>
      id === 'a' ? { resourceId: id, headers: { 'X-BOTH': 'handler' }, proxy: 'global', tags: { t: '2' } } : { resourceId: id },
    );
  const attributes = { tenant: 'x', priority: 'high', deep: [1, { a: null }] };
  const resources = [resource({ headers: { 'x-both': 'resource', 'x-mine': '1' }, tags: { t: '1' } }), resource({ id: 'special' })];
  const jobId = await server.accepted({
    jobType: 'custom',
    body: manifest({ resources, attributes }),
    headers: { 'x-fetchbox-tenant': 'acme' },
  });
  const { manifest: given, context } = seen.at(-1) as (typeof seen)[number];
  expect(given).toMatchObject({ jobId, jobType: 'custom', tenant: 'acme', metadata: { crawl: 1 }, attributes });
  expect(context).toEqual({ jobType: 'custom', options: { max_parallel_downloads: 2, colour: 'red' } });
  const [a, special] = await tasksOf(jobId);
  expect(a.payload).toMatchObject({
    url: 'https://cdn.example.com/a',
    headers: [
      ['User-Agent', 'FetchBox/1.0'],
      ['x-mine', '1'],
      ['X-BOTH', 'handler'],
    ],
    proxies: ['global', 'emergency'],
    tags: [['t', '2']],
  });
  expect(special.payload).toMatchObject({
    proxies: ['eu', 'global', 'emergency'],
    storage: { bucket: 'elsewhere', key: 'a/b', metadata: [['owner', 'me']] },
  });
  // The option limits the concurrent downloads of one job. The priority is data for a handler of its own.
  expect(a).toMatchObject({ concurrency: 2, priority: 2 });
});

test('the default handler maps the attribute priority, and ignores other words [C63]', async () => {
  for (const [priority, number] of [
    ['critical', 0],
    ['HIGH', 1],
    ['bulk', 4],
    ['urgent', 2],
    [5, 2],
  ] as const) {
    const jobId = await server.accepted({ jobType: 'plain', body: manifest({ attributes: { priority } }) });
    expect([(await tasksOf(jobId))[0].priority, priority]).toEqual([number, priority]);
  }
});

test('a handler may leave resources out, and all of them [C129]', async () => {
  build = ({ resources }) => resources.slice(1).map(({ id }) => ({ resourceId: id }));
  const two = await server.submit({ jobType: 'custom', body: manifest({ resources: [resource(), resource({ id: 'b' })] }) });
  expect(two.body.resource_count).toBe(2);
  expect((await server.get(`/jobs/${two.body.job_id}`)).body).toMatchObject({ resource_count: 2, resource_total: 1, status: 'queued' });
  const none = await server.submit({ jobType: 'custom', body: manifest({ resources: [resource()] }) });
  expect((await server.get(`/jobs/${none.body.job_id}`)).body).toMatchObject({ resource_total: 0, status: 'completed' });
});

test('a permanent error of a handler refuses the request with its message [C129]', async () => {
  build = () => {
    throw new PermanentError('the gallery is closed', { code: 'CLOSED' });
  };
  const { status, body } = await server.submit({ jobType: 'custom', body: manifest() });
  expect([status, body.error.code, body.error.message]).toEqual([400, 'INVALID_PAYLOAD', 'the gallery is closed.']);
});

test.each([
  ['a resource that does not exist', () => [{ resourceId: 'other' }]],
  ['one resource twice', () => [{ resourceId: 'a' }, { resourceId: 'a' }]],
  ['__proto__', () => [{ resourceId: '__proto__' }]],
  ['no list', () => 'tasks' as unknown as DownloadTask[]],
  ['null', () => [null as unknown as DownloadTask]],
  ['a header that cannot be sent', () => [{ resourceId: 'a', headers: { 'a\n': 'x' } }]],
  ['an empty key', () => [{ resourceId: 'a', storage: { key: '' } }]],
  [
    'an error',
    () => {
      throw new TypeError('a bug of the handler');
    },
  ],
])('a handler that answers with %s gets 500, and nothing is written [C129]', async (_, answer) => {
  build = answer;
  const before = (await server.database.api.query('SELECT count(*) FROM millrace.ingest_jobs')).rows;
  const { status, body } = await server.submit({ jobType: 'custom', body: manifest() });
  expect([status, body.error.code]).toEqual([500, 'INTERNAL_ERROR']);
  expect(body.error.message).not.toContain('bug');
  expect((await server.database.api.query('SELECT count(*) FROM millrace.ingest_jobs')).rows).toEqual(before);
});

test('a handler is registered under a path, with functions only', () => {
  expect(() => registerIngestHandler('', {})).toThrow('path must be a non-empty string');
  expect(() => registerIngestHandler('x', { finalizeJob: 5 } as never)).toThrow('finalizeJob of x must be a function');
  expect(() => registerIngestHandler('x', null as never)).toThrow('must be an object');
});
