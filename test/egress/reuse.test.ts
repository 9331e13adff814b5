import type { Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { afterEach, expect, test } from 'vitest';
import type { Egress, EgressRequest } from '../../src/egress/egress.ts';
import { until } from '../until.ts';
import { localEgress, namesOf, request } from './local-egress.ts';
import { answerWith, type Origin, openOrigin, type Script } from './origin.ts';
import { openHttpProxy, type TestProxy } from './proxies.ts';

const opened: { close(): unknown }[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()));
});

async function serving(script: Script = ({ path }) => answerWith(200, {}, path)): Promise<Origin> {
  const origin = await openOrigin(script);
  opened.push(origin);
  return origin;
}

function egressFor(options: Parameters<typeof localEgress>[0] = {}): Egress {
  const egress = localEgress(options);
  opened.push(egress);
  return egress;
}

const urlOf = (origin: Origin, path = '/'): string => `http://127.0.0.1:${origin.port}${path}`;

async function read(egress: Egress, url: string, rest: Partial<EgressRequest> = {}): Promise<string> {
  const answer = await egress.open(request(url, { reuses: true, ...rest }));
  if (answer.kind !== 'opened') return answer.code;
  return (await buffer(answer.body)).toString();
}

test('requests to one origin share a connection, one after the other', async () => {
  const origin = await serving();
  const egress = egressFor();
  for (let n = 0; n < 20; n++) expect(await read(egress, urlOf(origin, `/${n}`))).toBe(`/${n}`);
  expect(origin.accepted()).toBe(1);
});

test('a body that is read whole leaves its connection to the next request', async () => {
  const origin = await serving();
  const egress = egressFor();
  for (let n = 0; n < 5; n++) {
    const answer = await egress.openOrRead({ ...request(urlOf(origin, `/${n}`), { reuses: true }), wholeUpToBytes: 100 });
    expect(answer.kind === 'opened' && Buffer.from(answer.body as Uint8Array).toString()).toBe(`/${n}`);
  }
  expect(origin.accepted()).toBe(1);
});

test('requests at the same time have connections of their own, which are all used again', async () => {
  const origin = await serving();
  const egress = egressFor();
  for (let round = 0; round < 5; round++) await Promise.all(Array.from({ length: 8 }, (_, n) => read(egress, urlOf(origin, `/${n}`))));
  expect(origin.accepted()).toBe(8);
});

test('a request that does not ask for it gets a new connection, and the server is asked to close it', async () => {
  const origin = await serving();
  const egress = egressFor();
  for (let n = 0; n < 3; n++) await egress.fetch(request(urlOf(origin)));
  expect(origin.accepted()).toBe(3);
  expect(origin.seen()[0]?.headers).toMatch(/connection: close/i);
});

test('a connection that the server closed while it was idle costs no failure', async () => {
  const sockets: Socket[] = [];
  const origin = await serving((_, socket) => {
    sockets.push(socket);
    return answerWith(200, {}, 'ok');
  });
  const egress = egressFor();
  await read(egress, urlOf(origin));
  const closed = origin.nextClose();
  sockets[0]?.destroy();
  await closed;
  expect(await read(egress, urlOf(origin))).toBe('ok');
});

test('a kept connection that fails before a byte of the response is replaced once', async () => {
  const seen: number[] = [];
  const served = new WeakMap<Socket, number>();
  const origin = await serving((_, socket) => {
    const count = (served.get(socket) ?? 0) + 1;
    served.set(socket, count);
    seen.push(count);
    if (count === 1) return answerWith(200, {}, 'ok');
    socket.destroy();
    return null;
  });
  const egress = egressFor();
  for (let n = 0; n < 4; n++) expect(await read(egress, urlOf(origin))).toBe('ok');
  expect(seen).toEqual([1, 2, 1, 2, 1, 2, 1]);
});

test('a kept connection that fails after the first byte is a failure', async () => {
  const served = new WeakSet<Socket>();
  const origin = await serving((_, socket) => {
    if (!served.has(socket)) {
      served.add(socket);
      return answerWith(200, {}, 'ok');
    }
    socket.end('HTTP/1.1 200 OK\r\ncont');
    return null;
  });
  const egress = egressFor();
  expect([await read(egress, urlOf(origin)), await read(egress, urlOf(origin))]).toEqual(['ok', 'RESET']);
});

test.each<[string, Script, Partial<EgressRequest>]>([
  ['the server wants to close', () => answerWith(200, { connection: 'close' }, 'ok'), {}],
  ['the body was not read to its end', () => answerWith(200, {}, 'x'.repeat(1_000_000)), { maxBodyBytes: 10, overflow: 'truncate' }],
  ['the body was too long', () => answerWith(200, {}, 'x'.repeat(100)), { maxBodyBytes: 10 }],
  ['the server sent more than it said', () => 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more', {}],
])('a connection is not kept when %s', async (_, script, rest) => {
  const origin = await serving(script);
  const egress = egressFor();
  for (let n = 0; n < 3; n++) await read(egress, urlOf(origin), rest).catch(() => undefined);
  expect(origin.accepted()).toBe(3);
});

test('a redirect keeps the connection of its origin', async () => {
  const origin = await serving(({ path }) =>
    path === '/from' ? answerWith(302, { location: '/to' }, 'elsewhere') : answerWith(200, {}, path),
  );
  const egress = egressFor();
  expect(await read(egress, urlOf(origin, '/from'), { redirects: 3 })).toBe('/to');
  expect(origin.accepted()).toBe(1);
});

test('connections of other names, ports and proxies are never shared', async () => {
  const origin = await serving();
  const proxies = await Promise.all([openHttpProxy(), openHttpProxy()]);
  opened.push(...proxies);
  const egress = egressFor({ resolver: namesOf({ 'one.test': ['127.0.0.1'], 'two.test': ['127.0.0.1'] }) });
  const through = ({ port }: TestProxy, username: string | null) => ({
    kind: 'http' as const,
    host: '127.0.0.1',
    port,
    username,
    password: null,
  });
  const [one, other] = proxies as [TestProxy, TestProxy];
  const uses: [string, Partial<EgressRequest>][] = [
    [urlOf(origin), {}],
    [`http://one.test:${origin.port}/`, {}],
    [`http://two.test:${origin.port}/`, {}],
    [urlOf(origin), { proxy: through(one, null) }],
    [urlOf(origin), { proxy: through(one, 'user') }],
    [urlOf(origin), { proxy: through(other, null) }],
  ];
  for (let round = 0; round < 2; round++) for (const [url, rest] of uses) await read(egress, url, rest);
  expect(origin.accepted()).toBe(uses.length);
  expect([one.asked().length, other.asked().length]).toEqual([2, 1]);
});

test('a kept connection stays at the address that was checked, and a new one is checked again', async () => {
  const origin = await serving();
  const answers = ['127.0.0.1', '10.0.0.1'];
  const resolver = { resolve: async () => [answers.length > 1 ? (answers.shift() as string) : (answers[0] as string)] };
  const egress = egressFor({ resolver });
  const url = `http://moving.test:${origin.port}/`;
  expect(await read(egress, url)).toBe('/');
  expect(await read(egress, url)).toBe('/');
  expect(origin.accepted()).toBe(1);
  egress.close();
  expect(await read(egress, url)).toBe('ADDRESS');
});

test('idle connections are bounded, and close when the program says so', async () => {
  const origin = await serving((_, socket) => {
    waiting.push(() => socket.write(answerWith(200, {}, 'ok')));
    return null;
  });
  const waiting: (() => void)[] = [];
  const egress = egressFor();
  let ended = 0;
  const count = async (): Promise<void> => {
    await origin.nextClose();
    ended++;
    return count();
  };
  void count();
  const reads = Array.from({ length: 140 }, () => read(egress, urlOf(origin)));
  await until('all requests are in flight', () => waiting.length === 140);
  for (const answer of waiting) answer();
  await Promise.all(reads);
  await until('those above the bound are closed', () => ended >= 1);
  egress.close();
  const last = read(egress, urlOf(origin));
  await until('the next request is in flight', () => waiting.length === 141);
  waiting.at(-1)?.();
  await last;
  expect(origin.accepted()).toBe(141);
});
