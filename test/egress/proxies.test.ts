import { afterEach, describe, expect, test, vi } from 'vitest';
import { parseProxy } from '../../src/egress/proxy.ts';
import { until } from '../until.ts';
import { makeCertificate } from './certificates.ts';
import { localEgress, namesOf, request } from './local-egress.ts';
import { answerWith, openOrigin } from './origin.ts';
import { openHttpProxy, openSocksProxy, type ProxyScript, type TestProxy } from './proxies.ts';

const OPEN = { http: openHttpProxy, socks5: openSocksProxy } as const;
const KINDS = ['http', 'socks5'] as const;

let closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(closing.map((server) => server.close()));
  closing = [];
});

function keep<T extends { close(): Promise<void> }>(server: T): T {
  closing.push(server);
  return server;
}

async function opened(kind: 'http' | 'socks5', script: ProxyScript = {}): Promise<TestProxy & { url: string }> {
  const proxy = keep(await OPEN[kind](script));
  return { ...proxy, url: `${kind}://127.0.0.1:${proxy.port}` };
}

describe.each(KINDS)('a %s proxy', (kind) => {
  test.each([
    ['127.0.0.1', '127.0.0.1'],
    ['::1', kind === 'http' ? '[::1]' : '0:0:0:0:0:0:0:1'],
  ])('is asked for the address of %s and never for a name', async (host, asked) => {
    const origin = keep(await openOrigin(() => answerWith(200, {}, 'through'), { host }));
    const proxy = await opened(kind);
    const dialled: unknown[] = [];
    const egress = localEgress({ resolver: namesOf({ 'hooks.test': [host] }), onDial: (dial) => dialled.push(dial) });
    const url = `http://hooks.test:${origin.port}/`;
    const answer = await egress.fetch(request(url, { proxy: parseProxy(proxy.url) }));
    expect(answer).toMatchObject({ kind: 'answered', status: 200, address: host });
    expect(proxy.asked()).toEqual([{ host: asked, port: origin.port, credentials: null }]);
    expect(dialled).toEqual([{ address: '127.0.0.1', port: proxy.port, via: kind }]);
    expect(origin.seen()[0]?.headers.toLowerCase()).toContain('host: hooks.test');
  });

  test('carries TLS through to the target, which is verified by name', async () => {
    const certificate = makeCertificate(['hooks.test']);
    const origin = keep(await openOrigin(() => answerWith(200), { tls: certificate }));
    const proxy = parseProxy((await opened(kind)).url);
    const resolver = namesOf({ 'hooks.test': ['127.0.0.1'], 'other.test': ['127.0.0.1'] });
    const egress = localEgress({ resolver, tls: { ca: certificate.cert } });
    const call = (host: string) => egress.fetch(request(`https://${host}:${origin.port}/`, { proxy }));
    expect(await call('hooks.test')).toMatchObject({ kind: 'answered', status: 200 });
    expect(await call('other.test')).toMatchObject({ kind: 'failed', code: 'TLS' });
  });

  test('gets its credentials, and refuses without them', async () => {
    const origin = keep(await openOrigin(() => answerWith(200)));
    const proxy = await opened(kind, { credentials: 'me:päss:word' });
    const call = (user: string) => {
      const address = parseProxy(proxy.url.replace('//', `//${user}`));
      return localEgress().fetch(request(`http://127.0.0.1:${origin.port}/`, { proxy: address }));
    };
    expect(await call('me:p%C3%A4ss%3Aword@')).toMatchObject({ kind: 'answered', status: 200 });
    expect(await call('me:wrong@')).toMatchObject({ kind: 'failed', code: 'PROXY' });
    expect(await call('')).toMatchObject({ kind: 'failed', code: 'PROXY' });
    expect(origin.seen()).toHaveLength(1);
  });

  test('is closed or silent: PROXY or the deadline', async () => {
    const proxy = await opened(kind, { answer: Buffer.alloc(0) });
    const address = parseProxy(proxy.url);
    const call = (rest: { timeoutMs?: number } = {}) => localEgress().fetch(request('http://127.0.0.1:8080/', { proxy: address, ...rest }));
    expect(await call({ timeoutMs: 200 })).toMatchObject({ kind: 'failed', code: 'TIMEOUT' });
    await proxy.close();
    expect(await call()).toMatchObject({ kind: 'failed', code: 'PROXY' });
  });

  test('that is silent for one address leaves time to ask for the next', async () => {
    const origin = keep(await openOrigin(() => answerWith(200), { host: '127.0.0.2' }));
    const proxy = await opened(kind, { silentFor: '127.0.0.1' });
    const egress = localEgress({
      resolver: namesOf({ 'hooks.test': ['127.0.0.1', '127.0.0.2'] }),
      connectTimeoutMs: 10_000,
    });
    // Only the test lets time pass, so that a slow machine does not use up the share of the second address.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const answering = egress.fetch(request(`http://hooks.test:${origin.port}/`, { proxy: parseProxy(proxy.url) }));
    await until('the proxy was asked for the first address', () => proxy.asked().length, 1);
    await vi.advanceTimersByTimeAsync(5_000);
    const answer = await answering;
    expect(answer).toMatchObject({ kind: 'answered', address: '127.0.0.2' });
    expect(proxy.asked().map(({ host }) => host)).toEqual(['127.0.0.1', '127.0.0.2']);
  });

  test('has an address of its own choosing, and a name of it is looked up', async () => {
    const origin = keep(await openOrigin(() => answerWith(200)));
    const proxy = await opened(kind);
    const policy = { allow: [], targets: [`127.0.0.1:${origin.port}`] };
    const egress = localEgress({ policy, resolver: namesOf({ 'proxy.test': ['127.0.0.1'] }) });
    const url = `http://127.0.0.1:${origin.port}/`;
    const call = (host: string) => egress.fetch(request(url, { proxy: parseProxy(`${kind}://${host}:${proxy.port}`) }));
    expect(await call('proxy.test')).toMatchObject({ kind: 'answered' });
    expect(await call('127.0.0.1')).toMatchObject({ kind: 'answered' });
    expect(await call('nowhere.test')).toMatchObject({ kind: 'failed', code: 'DNS' });
  });
});

const REFUSALS: readonly ['http' | 'socks5', string, Buffer][] = [
  ['http', 'status 201', Buffer.from('HTTP/1.1 201 Created\r\n\r\n')],
  ['http', 'status 403', Buffer.from('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n')],
  ['http', 'another protocol', Buffer.from('SSH-2.0-x\r\n\r\n')],
  ['http', 'an endless head', Buffer.from(`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(9_000)}`)],
  ['socks5', 'a refusal', Buffer.from([5, 2, 0, 1, 0, 0, 0, 0, 0, 0])],
  ['socks5', 'a short refusal', Buffer.from([5, 1])],
  ['socks5', 'an unknown refusal', Buffer.from([5, 99, 0, 1, 0, 0, 0, 0, 0, 0])],
  ['socks5', 'another version', Buffer.from([4, 0, 0, 1, 0, 0, 0, 0, 0, 0])],
];

test('a page behind the refusal of an HTTP proxy does not hide its status', async () => {
  const answer = Buffer.from('HTTP/1.1 502 Bad\r\ncontent-length: 3\r\n\r\nbad');
  const proxy = parseProxy((await opened('http', { answer })).url);
  const failure = await localEgress().fetch(request('http://127.0.0.1:8080/', { proxy }));
  expect(failure).toMatchObject({ code: 'PROXY', message: expect.stringContaining('502') });
});

test.each(REFUSALS)('a %s proxy that answers with %s is a failure', async (kind, _, answer) => {
  const proxy = parseProxy((await opened(kind, { answer })).url);
  expect(await localEgress().fetch(request('http://127.0.0.1:8080/', { proxy }))).toMatchObject({
    kind: 'failed',
    code: 'PROXY',
  });
});

test.each([
  ['http', Buffer.from('HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n')],
  ['socks5', Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0, 72])],
] as const)('a %s proxy that slips bytes in behind its answer is refused', async (kind, answer) => {
  const proxy = parseProxy((await opened(kind, { answer })).url);
  const failure = await localEgress().fetch(request('http://127.0.0.1:8080/', { proxy }));
  expect(failure).toMatchObject({ code: 'PROXY', message: expect.stringContaining('bytes after its reply') });
});

test('a SOCKS5 proxy may answer with a name or an IPv6 address of its own', async () => {
  for (const bound of [
    [4, ...Array(18).fill(0)],
    [3, 2, 104, 105, 0, 80],
  ]) {
    const proxy = parseProxy((await opened('socks5', { answer: Buffer.from([5, 0, 0, ...bound]) })).url);
    const call = localEgress().fetch(request('http://127.0.0.1:8080/', { proxy, timeoutMs: 200 }));
    // The tunnel stands; there is nobody at its end.
    expect(await call).toMatchObject({ kind: 'failed', code: 'TIMEOUT' });
  }
});

describe('the address of a proxy', () => {
  test.each([
    ['http://proxy.test:3128', { kind: 'http', host: 'proxy.test', port: 3128, username: null, password: null }],
    ['http://proxy.test/', { kind: 'http', host: 'proxy.test', port: 80, username: null, password: null }],
    ['socks5://a%40b:c%3Ad@[::1]:1081', { kind: 'socks5', host: '::1', port: 1081, username: 'a@b', password: 'c:d' }],
    ['socks5://10.0.0.1', { kind: 'socks5', host: '10.0.0.1', port: 1080, username: null, password: null }],
  ])('%s is read', (text, expected) => {
    expect(parseProxy(text)).toEqual(expected);
  });

  test.each([
    ...['', 'proxy.test:3128', 'https://proxy.test', 'socks4://proxy.test', 'socks5h://proxy.test', 'http://', 'socks5://'],
    ...['http://proxy.test/path', 'http://proxy.test?x', 'http://proxy.test:0', 'http://%ff@proxy.test', 'http://:pw@proxy.test'],
    `socks5://${'a'.repeat(256)}@proxy.test`,
  ])('%j is none', (text) => {
    expect(parseProxy(text)).toBeNull();
  });
});
