import { expect, test } from 'vitest';
import { until } from '../until.ts';
import { manifest, useIngest } from './ingest-fixture.ts';

const server = useIngest();

const get = (path: string) => server.get(path);
const resourcesOf = async (jobId: string, query = '') => (await get(`/jobs/${jobId}/resources${query}`)).body.items;

test('a job shows the newest error and counts successes only, and stays in progress until all have ended [FB-2.04] [FB-2.07] [FB-2.09] [FB-2.10] [FB-2.11] [FB-2.13] [FB-2.14] [C30]', async () => {
  let release = () => {};
  const slow = server.origin.file((_, response) => {
    release = () => response.end('late');
  });
  const resources = [
    { id: 'good', url: server.origin.file('hello') },
    { id: 'bad', url: server.origin.status(403) },
    { id: 'slow', url: slow },
  ];
  const jobId = await server.accepted({ resources });
  await until('one completed and one failed', async () => {
    const { resource_completed, resource_failed } = (await get(`/jobs/${jobId}`)).body;
    return resource_completed === 1 && resource_failed === 1;
  });
  const running = (await get(`/jobs/${jobId}`)).body;
  expect(running).toMatchObject({ status: 'in_progress', resource_total: 3, last_error: { code: 'HTTP_403' } });
  expect(running.log_cursor).toEqual({ stream: 'jobs.logs', offset: expect.any(Number) });
  await until('the slow one is requested', () => release.name !== '' && release.toString().includes('late'));
  release();
  const ended = await server.reached(jobId, 'failed');
  expect(ended).toMatchObject({ status: 'failed', resource_completed: 2, resource_failed: 1, bytes: 9, last_error: { code: 'HTTP_403' } });
  expect(Number.isInteger(ended.log_cursor.offset)).toBe(true);
  expect(Date.parse(ended.updated_at)).toBeGreaterThanOrEqual(Date.parse(running.updated_at));
  expect(Date.parse(ended.updated_at)).toBeGreaterThan(Date.parse(ended.created_at));
});

test('resources show what was downloaded, and filter by status in pages [N36]', async () => {
  const resources = [
    { id: 'a', url: server.origin.file('aaaa') },
    { id: 'b', url: server.origin.status(404) },
    { id: 'c', url: server.origin.file('cc') },
  ];
  const jobId = await server.accepted({ resources });
  await server.reached(jobId, 'failed');
  const [a, b] = await resourcesOf(jobId);
  expect(a).toMatchObject({
    id: 'a',
    url: resources[0]?.url,
    status: 'completed',
    attempts: 1,
    http_status: 200,
    bytes: 4,
    sha256: '61be55a8e2f6b4e172338bddf184d6dbee29c98853e0a0485ecee7f27b9af0b4',
    content_type: 'text/plain',
    object_key: expect.stringContaining(`default/${jobId}/a`),
    error: null,
    proxy: null,
  });
  expect(b).toMatchObject({ id: 'b', status: 'failed', http_status: 404, bytes: null, error: { code: 'HTTP_404' } });
  expect((await resourcesOf(jobId, '?status=completed')).map((each: { id: string }) => each.id)).toEqual(['a', 'c']);
  const page = (await get(`/jobs/${jobId}/resources?status=completed&limit=1`)).body;
  const next = await get(`/jobs/${jobId}/resources?status=completed&limit=1&cursor=${page.next_cursor}`);
  expect(next.body).toMatchObject({ items: [{ id: 'c' }], next_cursor: null });
  expect((await get(`/jobs/${jobId}/resources?limit=1&cursor=${page.next_cursor}`)).status).toBe(400);
});

test('jobs are listed newest first, by filters, and a cursor belongs to its filters [N36]', async () => {
  const headers = { 'x-fetchbox-tenant': 'lister' };
  const made: string[] = [];
  for (let n = 0; n < 5; n++) made.push(await server.accepted({ headers, resources: [{ id: 'a', url: server.origin.file() }] }));
  const bad = await server.accepted({ headers, resources: [{ id: 'a', url: server.origin.status(410) }] });
  for (const id of [...made, bad]) await server.reached(id, 'completed', 'failed');
  const idsOf = async (query: string) => (await get(`/jobs?tenant=lister${query}`)).body.items.map((job: { job_id: string }) => job.job_id);
  const newest = [bad, ...made.toReversed()];
  expect(await idsOf('')).toEqual(newest);
  await until('the list knows the statuses', async () => (await idsOf('&status=failed')).length === 1);
  expect(await idsOf('&status=failed')).toEqual([bad]);
  expect(await idsOf('&status=completed&job_type=default')).toEqual(made.toReversed());
  expect(await idsOf('&job_type=other')).toEqual([]);
  const { created_at } = (await get(`/jobs/${made[4]}`)).body;
  expect(await idsOf(`&since=${encodeURIComponent(created_at)}`)).toEqual(newest.slice(0, 2));
  expect(await idsOf(`&until=${encodeURIComponent(created_at)}`)).toEqual(newest.slice(2));
  const paged: string[] = [];
  let cursor = '';
  do {
    const { body } = await get(`/jobs?tenant=lister&limit=4${cursor}`);
    paged.push(...body.items.map((job: { job_id: string }) => job.job_id));
    cursor = body.next_cursor === null ? '' : `&cursor=${body.next_cursor}`;
  } while (cursor !== '');
  expect(paged).toEqual(newest);
  const { next_cursor } = (await get('/jobs?tenant=lister&limit=1')).body;
  for (const query of ['limit=1', 'tenant=lister&status=failed&limit=1', 'tenant=lister&org=default']) {
    expect([query, (await get(`/jobs?${query}&cursor=${next_cursor}`)).status]).toEqual([query, 400]);
  }
});

test.each(['?status=done', '?limit=0', '?limit=1001', '?since=yesterday', '?cursor=abc', '?unknown=1'])(
  'a list with %s is refused with 400',
  async (query) => {
    const { status, body } = await get(`/jobs${query}`);
    expect([status, body.error.code]).toEqual([400, 'INVALID_REQUEST']);
  },
);

test.each(['0197a5b2-6a86-7b0e-9a53-1a2f3a0b7c11', 'x', '__proto__', '%00', '..%2f'])('the unknown job %s is 404 [FB-2.15]', async (id) => {
  for (const path of [`/jobs/${id}`, `/jobs/${id}/resources`, `/jobs/${id}/logs`]) {
    const { status, body } = await get(path);
    expect([path, status, body.error.code]).toEqual([path, 404, 'NOT_FOUND']);
  }
});

test('the log is replayed from the cursor of the job, from an offset, and from nowhere else [FB-2.16] [FB-2.17] [FB-2.18] [FB-2.19] [FB-2.20] [C88]', async () => {
  const jobId = await server.accepted({ resources: [{ id: 'a', url: server.origin.file() }] });
  const other = await server.accepted({ resources: [{ id: 'a', url: server.origin.file() }] });
  await server.reached(jobId, 'completed');
  await server.reached(other, 'completed');
  await until('the last line is there', async () => (await get(`/jobs/${jobId}/logs`)).body.at(-1).event, 'job.completed');
  const { body: lines, headers } = await get(`/jobs/${jobId}/logs`);
  expect(headers.get('content-type')).toContain('application/x-ndjson');
  expect(new Set(lines.map((line: { job_id: string }) => line.job_id))).toEqual(new Set([jobId]));
  const offsets = lines.map((line: { offset: number }) => line.offset);
  expect(offsets).toEqual([...offsets].sort((one: number, two: number) => one - two));
  const { log_cursor } = (await get(`/jobs/${jobId}`)).body;
  expect(offsets[0]).toBeGreaterThanOrEqual(log_cursor.offset);
  expect(lines[0]).toMatchObject({ level: 'info', event: 'job.accepted', at: expect.any(String), message: expect.any(String) });
  const started = lines.find((line: { event: string }) => line.event === 'resource.started');
  expect(started).toMatchObject({ resource_id: 'a' });
  expect((await get(`/jobs/${jobId}/logs?since_offset=${offsets[1]}`)).body).toEqual(lines.slice(1));
  expect((await get(`/jobs/${jobId}/logs?since_offset=999999999`)).body).toEqual([]);
  for (const wrong of ['-1', 'x', '1.5', '']) expect((await get(`/jobs/${jobId}/logs?since_offset=${wrong}`)).status).toBe(400);
});

test('a log can be followed until the job has ended [N47]', async () => {
  let release = () => {};
  const url = server.origin.file((_, response) => {
    release = () => response.end('done');
  });
  const jobId = await server.accepted({ resources: [{ id: 'a', url }] });
  const followed = get(`/jobs/${jobId}/logs?follow=true`);
  await server.reached(jobId, 'in_progress');
  await until('the download waits', () => release.toString().includes('done'));
  release();
  const { body } = await followed;
  expect(body.at(-1).event).toBe('job.completed');
});

test('a retry begins the failed resources again and leaves the others alone', async () => {
  let isFixed = false;
  let calls = 0;
  const flaky = server.origin.file((_, response) => {
    calls++;
    response.writeHead(isFixed ? 200 : 404).end('content');
  });
  const good = { id: 'good', url: server.origin.file() };
  const jobId = await server.accepted({ resources: [good, { id: 'bad', url: flaky }] });
  await server.reached(jobId, 'failed');
  isFixed = true;
  const before = (await resourcesOf(jobId))[0];
  const { status, body } = await server.operate('POST', `/jobs/${jobId}/retry`, { body: { reason: 'the origin is fixed' } });
  expect([status, body]).toEqual([202, { retried: 1 }]);
  expect(await server.reached(jobId, 'completed')).toMatchObject({ resource_completed: 2, resource_failed: 0, last_error: null });
  expect((await resourcesOf(jobId))[0]).toEqual(before);
  expect(calls).toBe(2);
  expect((await server.operate('POST', `/jobs/${jobId}/retry`)).body).toEqual({ retried: 0 });
  const events = (await get(`/jobs/${jobId}/logs`)).body.map((line: { event: string }) => line.event);
  expect(events).toContain('job.retried');
});

test('a cancel ends what has not ended, and a retry brings it back', async () => {
  let requests = 0;
  let isOpen = false;
  const held = server.origin.file((_, response) => {
    requests++;
    if (isOpen) response.end('now');
  });
  const resources = Array.from({ length: 8 }, (_, index) => ({ id: `r${index}`, url: held }));
  const jobId = await server.accepted({ resources });
  await until('downloads run', () => requests > 0);
  const { status, body } = await server.operate('POST', `/jobs/${jobId}/cancel`, { body: { reason: 'enough' } });
  expect([status, body]).toEqual([202, { cancelled: 8 }]);
  const ended = await server.reached(jobId, 'failed');
  expect(ended).toMatchObject({ resource_completed: 0, resource_failed: 8, last_error: { code: 'CANCELLED' } });
  // The line about the cancel may come after the one about the end.
  await until('the job is settled', async () =>
    (await get(`/jobs/${jobId}/logs`)).body.some(({ event }: { event: string }) => event === 'job.failed'),
  );
  isOpen = true;
  expect((await server.operate('POST', `/jobs/${jobId}/retry`)).body).toEqual({ retried: 8 });
  expect(await server.reached(jobId, 'completed')).toMatchObject({ resource_completed: 8, resource_failed: 0 });
});

test('a reason may have 1000 characters, and not more', async () => {
  const jobId = await server.accepted({ resources: [{ id: 'a', url: server.origin.file() }] });
  const cancel = (reason: unknown) => server.operate('POST', `/jobs/${jobId}/cancel`, { body: { reason } }).then(({ status }) => status);
  expect([await cancel('x'.repeat(1_001)), await cancel(5), await cancel('x'.repeat(1_000))]).toEqual([400, 400, 202]);
});

test('the health names each component, without a token [FB-2.21] [FB-2.23]', async () => {
  const healthy = { status: 'healthy' };
  // A component that a busy machine delays by two seconds is shown as unhealthy.
  await until(
    'every component is healthy',
    async () => {
      const { status, body } = await server.get('/health', null);
      return { status, body };
    },
    {
      status: 200,
      body: {
        status: 'healthy',
        components: { api: healthy, ledger: healthy, stream: healthy, storage: healthy, proxy_pools: healthy },
      },
    },
  );
});

test('hosts show what was downloaded from them, and can be paused', async () => {
  const host = server.origin.url.replace('http://', '');
  await until('the host is counted', async () =>
    (await get('/hosts')).body.items.some((each: { host: string; requests: number }) => each.host === host && each.requests > 0),
  );
  const pause = await server.operate('POST', `/hosts/${encodeURIComponent(host)}/pause`);
  expect([pause.status, pause.body]).toEqual([200, { name: host, paused: true }]);
  const jobId = await server.accepted({ resources: [{ id: 'a', url: server.origin.file() }] });
  expect((await get('/hosts')).body.items).toMatchObject([{ host, paused: true }]);
  await server.operate('POST', `/hosts/${encodeURIComponent(host)}/resume`);
  await server.reached(jobId, 'completed');
  expect((await server.operate('POST', '/hosts/a%20b/pause')).status).toBe(400);
  expect((await server.operate('POST', '/proxies/unknown/pause')).status).toBe(404);
  expect((await get('/proxies')).body).toEqual({ items: [], next_cursor: null });
});

test('a submission fails with 500 and leaves nothing if the object store cannot be used, and the health says so [FB-1.49] [FB-1.50] [FB-1.60] [FB-2.22]', async () => {
  const { store } = server.platform.ingest.context;
  const [put, check] = [store.put, store.check];
  const away = async () => {
    throw new Error('the disk is gone');
  };
  Object.assign(store, { put: away, check: away });
  try {
    const { status, body } = await server.submit({ body: manifest(), headers: { 'x-fetchbox-tenant': 'unlucky' } });
    expect([status, body.error.code]).toEqual([500, 'INTERNAL_ERROR']);
    expect(body.error.message).not.toContain('disk');
    const health = await server.get('/health', null);
    expect([health.status, health.body.components.storage.status]).toEqual([503, 'unhealthy']);
  } finally {
    Object.assign(store, { put, check });
  }
  expect((await get('/jobs?tenant=unlucky')).body.items).toEqual([]);
});
