import { afterAll, beforeAll, expect, test } from 'vitest';
import type { FetchTask } from '../../src/core/ingest/fetch-task.ts';
import type { IngestLogLine } from '../../src/core/ingest/log-line.ts';
import { type Origin, openOrigin } from '../egress/origin.ts';
import { until } from '../until.ts';
import { OpenGate, taskFor, useStage, wordOf } from './fetch-fixture.ts';
import { bodyOf, serveResources, sha256 } from './fetch-origin.ts';

const stage = useStage();
let origin: Origin;
let elsewhere: Origin;

beforeAll(async () => {
  const serve = serveResources(() => elsewhere.port);
  origin = await openOrigin(serve);
  elsewhere = await openOrigin(serve);
});
afterAll(() => Promise.all([origin.close(), elsewhere.close()]));

const at = (path: string, rest: Partial<FetchTask> = {}): FetchTask => taskFor(`http://127.0.0.1:${origin.port}${path}`, rest);

test('the result describes what was stored', async () => {
  const task = at('/away');
  expect(await stage.run(task)).toEqual({
    kind: 'completed',
    result: {
      httpStatus: 200,
      bytes: 5,
      sha256: sha256(bodyOf('/size/5')),
      contentType: 'text/plain',
      objectKey: task.storage.key,
      proxy: null,
      url: `http://127.0.0.1:${elsewhere.port}/size/5`,
    },
  });
  const tags = [
    ['Content_Type', 'x'],
    ['b', 'tag'],
  ] as const;
  const storage = { ...task.storage, metadata: [['b', 'handler']] as const };
  await stage.run(at('/size/5', { tags, storage }));
  const info = await stage.store.head(storage);
  expect(info?.contentType).toBe('text/plain');
  expect(new Map(info?.metadata)).toEqual(
    new Map([
      ['sha256', sha256(bodyOf('/size/5'))],
      ['content_type', 'x'],
      ['b', 'handler'],
    ]),
  );
});

test('a tag that the store cannot keep costs no download, and none replaces what the download says about itself [FB-1.29] [FB-1.30] [N41]', async () => {
  const tags = [
    ['Content Type', 'x'],
    ['crawl:id', '7'],
    ['note', 'x'.repeat(2_100)],
    ['sha256', '0'.repeat(64)],
    ['source-etag', 'zz'],
    ['kept', 'yes'],
  ] as const;
  // A handler that chooses nothing has a copy of all tags.
  const storage = { ...at('/size/5').storage, metadata: tags };
  expect(await stage.run(at('/size/5', { tags, storage }))).toMatchObject({ kind: 'completed' });
  const info = await stage.store.head(storage);
  expect(new Map(info?.metadata)).toEqual(
    new Map([
      ['sha256', sha256(bodyOf('/size/5'))],
      ['kept', 'yes'],
    ]),
  );
});

test.each([
  ['ftp://127.0.0.1/x', 'permanent UNSUPPORTED_SCHEME'],
  ['file:///etc/passwd', 'permanent UNSUPPORTED_SCHEME'],
  ['data:text/plain,x', 'permanent UNSUPPORTED_SCHEME'],
  ['', 'permanent INVALID_URL'],
  ['http:///x', 'permanent INVALID_URL'],
  ['http://user:secret@127.0.0.1/x', 'permanent INVALID_URL'],
  ['http://10.0.0.1/', 'permanent ADDRESS_REFUSED'],
  ['http://nowhere.test/', 'temporary CONNECTION_FAILED'],
  ['http://127.0.0.1:1/', 'permanent INVALID_URL'],
])('%j ends as %s', async (url, expected) => {
  expect(wordOf(await stage.run(taskFor(url)))).toBe(expected);
});

test('the time that the server asks for is the shortest wait before the next attempt', async () => {
  const gate = new OpenGate();
  expect(await stage.run(at('/status/429'), { gate })).toMatchObject({ kind: 'temporary', code: 'HTTP_429', retryAfterMs: 7_000 });
  expect(gate.outcomes).toEqual([{ status: 429, bytes: 0, failed: true, retryAfterMs: 7_000 }]);
});

test('the whole download has a time limit, with all its redirects', async () => {
  expect(wordOf(await stage.run(at('/stop'), { limits: { timeoutMs: 200 } }))).toBe('temporary TIMEOUT');
  expect(wordOf(await stage.run(at('/silent'), { limits: { timeoutMs: 200 } }))).toBe('temporary TIMEOUT');
});

test('an aborted download stores nothing and throws the reason', async () => {
  const job = new AbortController();
  const task = at('/stop');
  const ending = stage.run(task, { context: { signal: job.signal } });
  job.abort(new Error('the worker stops'));
  expect(await ending).toEqual({ kind: 'aborted', reason: new Error('the worker stops') });
  expect(await stage.objectOf(task)).toBeNull();
});

test('secrets are not carried to another host, and are masked in every line and result [C91]', async () => {
  const secrets = [
    ['Authorization', 'Bearer hunter2'],
    ['Cookie', 'sid=hunter2'],
    ['Proxy-Authorization', 'Basic hunter2'],
    ['X-Api-Key', 'hunter2'],
    ['X-Plain', 'visible'],
  ] as const;
  const lines: IngestLogLine[] = [];
  const end = await stage.run(at('/away?token=hunter2', { headers: secrets }), { lines });
  const [first, second] = [origin.seen().at(-1)!.headers, elsewhere.seen().at(-1)!.headers];
  expect(first).toMatch(/authorization: Bearer hunter2/i);
  expect(first).toMatch(/cookie: sid=hunter2/i);
  expect(`${first}${second}`).not.toMatch(/proxy-authorization/i);
  expect(second).not.toMatch(/^(authorization|cookie)/im);
  expect(second).toMatch(/x-plain: visible/i);
  expect(first).toMatch(/accept-encoding: identity/i);
  expect(JSON.stringify([lines, end])).not.toContain('hunter2');
  expect(lines.map(({ event }) => event)).toEqual([
    'resource.started',
    'resource.headers_dropped',
    'resource.redirected',
    'resource.completed',
  ]);
});

test('a header that cannot be sent fails the resource at once', async () => {
  for (const header of [
    ['bad name', 'x'],
    ['x', 'a\r\nhost: evil'],
    ['', 'x'],
    ['x', 'a\0b'],
  ] as const) {
    expect(wordOf(await stage.run(at('/size/5', { headers: [header] })))).toBe('permanent INVALID_HEADER');
  }
});

test.each([null, 'text', {}, { url: 'http://127.0.0.1/' }])('a payload that is no task fails at once: %j', async (payload) => {
  expect(wordOf(await stage.run(payload as unknown as FetchTask))).toBe('permanent INVALID_TASK');
});

test('a redirect to another host passes the gate of that host, too', async () => {
  const gate = new OpenGate();
  await stage.run(at('/away'), { gate });
  await stage.run(at('/hop/2'), { gate });
  expect(gate.entered).toEqual([`127.0.0.1:${origin.port}`, `127.0.0.1:${elsewhere.port}`, `127.0.0.1:${origin.port}`]);
  expect(gate.outcomes.map(({ status }) => status)).toEqual([302, 200, 301, 301, 301, 200]);
});

test('a host that cannot be entered postpones the task without a request', async () => {
  const before = origin.seen().length;
  const gate = { enter: async () => ({ kind: 'later', retryAfterMs: 4_000 }) as const };
  const lines: IngestLogLine[] = [];
  expect(await stage.run(at('/size/5'), { gate, lines })).toEqual({ kind: 'postponed', ms: 4_000 });
  expect([origin.seen().length, lines.length]).toEqual([before, 0]);
});

test('a task whose place is lost ends its request and is postponed', async () => {
  const gate = new OpenGate();
  const before = origin.seen().length;
  const ending = stage.run(at('/stop'), { gate });
  await until('the request is in flight', () => origin.seen().length > before);
  const closed = origin.nextClose();
  gate.places[0]!.abort();
  expect(await ending).toEqual({ kind: 'postponed', ms: 1_000 });
  await closed;
});

test('a store that fails is retried, and the host is not blamed', async () => {
  const gate = new OpenGate();
  const fail = async () => Promise.reject(Object.assign(new Error('the disk is full'), { code: 'STORE_FULL' }));
  const failing = { head: async () => null, put: fail, upload: fail };
  for (const path of ['/size/5', '/size/300000']) {
    expect(wordOf(await stage.run(at(path), { store: failing, gate }))).toBe('temporary STORAGE_UNAVAILABLE');
  }
  expect(gate.outcomes.map(({ status, failed }) => [status, failed])).toEqual([
    [200, false],
    [200, false],
  ]);
});
