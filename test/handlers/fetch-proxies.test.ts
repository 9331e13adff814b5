import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { IngestLogLine } from '../../src/core/ingest/log-line.ts';
import { HealthPools } from '../../src/egress/health-pools.ts';
import { localEgress, namesOf } from '../egress/local-egress.ts';
import { answerWith, type Origin, openOrigin } from '../egress/origin.ts';
import { openHttpProxy, openSocksProxy } from '../egress/proxies.ts';
import { OpenGate, taskFor, useStage, wordOf } from './fetch-fixture.ts';

const stage = useStage();
const opened: { close(): unknown }[] = [];
let origin: Origin;
/** What the origin sends to each request, by the number of requests so far. */
let statuses: number[] = [];

beforeEach(async () => {
  statuses = [];
  origin = await openOrigin(() => {
    const status = statuses.shift() ?? 200;
    return answerWith(status, status === 429 ? { 'retry-after': '3' } : {}, 'content');
  });
  opened.push(origin);
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()));
});

async function closing<T extends { close(): unknown }>(opening: Promise<T>): Promise<T> {
  const made = await opening;
  opened.push(made);
  return made;
}

const urlOf = ({ port }: { port: number }, credentials = ''): string => `http://${credentials}127.0.0.1:${port}`;
const poolsOf = (pools: Record<string, readonly string[]>): HealthPools => new HealthPools({ pools: new Map(Object.entries(pools)) });
const task = (proxies: readonly string[]) => taskFor(`${urlOf(origin)}/file`, { proxies });
/** Nothing listens there. A port that was free a moment ago may belong to another process by now. */
const DEAD_PORT = 1;

test('the primary pool is used, with its credentials, and they appear nowhere [FB-3.04]', async () => {
  const proxy = await closing(openHttpProxy({ credentials: 'user:hunter2' }));
  const pools = poolsOf({ main: [urlOf(proxy, 'user:hunter2@')] });
  const lines: IngestLogLine[] = [];
  const end = await stage.run(task(['main']), { pools, lines });
  expect(end).toMatchObject({ kind: 'completed', result: { proxy: 'main' } });
  expect(proxy.asked()).toMatchObject([{ credentials: 'user:hunter2' }]);
  expect(JSON.stringify([lines, end, pools.takeReports()])).not.toContain('hunter2');
});

test.each([403, 407, 408, 425, 429, 500, 502, 503])(
  'status %i tries the next pool at once, and a line names it [FB-3.05] [FB-3.06]',
  async (status) => {
    const proxies = [await closing(openHttpProxy()), await closing(openSocksProxy())] as const;
    const pools = poolsOf({ main: [urlOf(proxies[0])], spare: [`socks5://127.0.0.1:${proxies[1].port}`] });
    statuses = [status];
    const lines: IngestLogLine[] = [];
    const gate = new OpenGate();
    expect(await stage.run(task(['main', 'spare']), { pools, lines, gate })).toMatchObject({ result: { proxy: 'spare' } });
    expect(lines.map(({ event }) => event)).toEqual(['resource.started', 'resource.proxy_changed', 'resource.completed']);
    expect(lines[1]?.details).toEqual({ from: 'main', to: 'spare', reason: `HTTP_${status}` });
    // Both requests count for the host, which was entered once.
    expect([gate.entered.length, gate.outcomes.map((outcome) => outcome.status)]).toEqual([1, [status, 200]]);
  },
);

test.each([
  [[403, 403], 'permanent HTTP_403'],
  [[500, 403], 'permanent HTTP_403'],
  [[403, 429], 'temporary HTTP_429'],
  [[404], 'permanent HTTP_404'],
  [[410], 'permanent HTTP_410'],
])('when all pools are spent, the last status decides: %j', async (given, expected) => {
  const proxy = await closing(openHttpProxy());
  const pools = poolsOf({ main: [urlOf(proxy)], spare: [urlOf(proxy)] });
  statuses = [...given];
  expect(wordOf(await stage.run(task(['main', 'spare']), { pools }))).toBe(expected);
  expect(origin.seen().length).toBe(given.length);
});

test('a proxy that dies is passed over, and one that heals is used again', async () => {
  let isDead = true;
  const server = createServer();
  // It keeps its port while it is dead, so that nobody else gets it.
  server.on('connection', (socket) => {
    if (isDead) socket.destroy();
  });
  opened.push({ close: () => server.close() });
  tunnelThrough(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port: dead } = server.address() as AddressInfo;
  const spare = await closing(openHttpProxy());
  let now = 1_000;
  const pools = new HealthPools({
    pools: new Map([
      ['main', [`http://127.0.0.1:${dead}`]],
      ['spare', [urlOf(spare)]],
    ]),
    nowMs: () => now,
  });
  const poolOf = async () => {
    const end = await stage.run(task(['main', 'spare']), { pools });
    return end.kind === 'completed' ? end.result.proxy : wordOf(end);
  };
  for (let n = 0; n < 5; n++) expect(await poolOf()).toBe('spare');
  expect(pools.takeReports().find(({ pool }) => pool === 'main')).toMatchObject({ failures: 3, ejectedMs: expect.any(Number) });
  isDead = false;
  expect(await poolOf()).toBe('spare');
  now += 60_000;
  expect(await poolOf()).toBe('main');
});

function tunnelThrough(server: Server): void {
  server.on('connect', async (request, client) => {
    const { connect } = await import('node:net');
    const [host = '', port] = (request.url ?? '').split(':');
    const target = connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n');
      target.pipe(client).pipe(target);
    });
    for (const socket of [client, target]) socket.on('error', () => undefined);
  });
}

test('another address of the same pool follows when a proxy does not work', async () => {
  const proxy = await closing(openHttpProxy());
  const pools = poolsOf({ main: [`http://127.0.0.1:${DEAD_PORT}`, urlOf(proxy)] });
  for (let n = 0; n < 4; n++) expect(await stage.run(task(['main']), { pools })).toMatchObject({ result: { proxy: 'main' } });
});

test('a proxy that cannot reach the target is not blamed for it', async () => {
  const proxy = await closing(openHttpProxy({ answer: Buffer.from('HTTP/1.1 502 Bad Gateway\r\n\r\n') }));
  const pools = poolsOf({ main: [urlOf(proxy)] });
  pools.takeReports();
  for (let n = 0; n < 5; n++) expect(wordOf(await stage.run(task(['main']), { pools }))).toBe('temporary PROXY_FAILED');
  expect(pools.takeReports()).toEqual([]);
});

test('pools that are not defined or paused are passed over, and there is never a request without a proxy', async () => {
  const proxy = await closing(openHttpProxy());
  const pools = poolsOf({ main: [urlOf(proxy)], spare: [urlOf(proxy)] });
  pools.setPaused(new Set(['main']));
  const lines: IngestLogLine[] = [];
  expect(await stage.run(task(['nowhere', 'main', 'spare']), { pools, lines })).toMatchObject({ result: { proxy: 'spare' } });
  expect(lines.find(({ event }) => event === 'resource.proxy_changed')?.details).toEqual({
    from: 'nowhere',
    to: 'spare',
    reason: 'undefined',
  });
  const before = origin.seen().length;
  expect(await stage.run(task(['nowhere', 'main']), { pools })).toMatchObject({
    kind: 'temporary',
    code: 'PROXY_FAILED',
    message: 'no proxy pool can be used: nowhere (undefined), main (paused)',
  });
  expect(origin.seen().length).toBe(before);
});

/** A proxy that opens no tunnel and forwards requests, as many do for plain http. */
async function openForwarder(): Promise<{ port: number; urls: string[]; credentials: (string | undefined)[]; close(): void }> {
  const urls: string[] = [];
  const credentials: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    urls.push(request.url ?? '');
    credentials.push(request.headers['proxy-authorization']);
    response.end('forwarded');
  });
  server.on('connect', (_, client) => client.end('HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, urls, credentials, close: () => server.close() };
}

test('a proxy that opens no tunnels forwards requests to an address, but never to a name', async () => {
  const forwarder = await closing(openForwarder());
  const pools = poolsOf({ main: [urlOf(forwarder, 'user:pass@')] });
  expect(await stage.run(task(['main']), { pools })).toMatchObject({ kind: 'completed', result: { bytes: 9, proxy: 'main' } });
  expect(forwarder.urls).toEqual([`${urlOf(origin)}/file`]);
  expect(forwarder.credentials).toEqual([`Basic ${Buffer.from('user:pass').toString('base64')}`]);
  const egress = localEgress({ resolver: namesOf({ 'named.test': ['127.0.0.1'] }) });
  const named = taskFor(`http://named.test:${origin.port}/file`, { proxies: ['main'] });
  expect(wordOf(await stage.run(named, { pools, egress }))).toBe('temporary PROXY_FAILED');
  expect(forwarder.urls.length).toBe(1);
  expect(origin.seen()).toEqual([]);
});
