import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { localEgress, namesOf, request } from './local-egress.ts';
import { answerWith, type Origin, openOrigin, type Script } from './origin.ts';

let origin: Origin | undefined;
afterEach(() => origin?.close());

async function serving(script: Script, host?: string): Promise<string> {
  origin = await openOrigin(script, { host });
  return `http://${host === '::1' ? '[::1]' : '127.0.0.1'}:${origin.port}`;
}

/** At a port where nobody listens at the other addresses. Each address of this machine has its own ports. */
async function servingAlone(host: string, others: readonly string[]): Promise<string> {
  for (;;) {
    const url = await serving(() => answerWith(200), host);
    const { port } = origin!;
    const free = await Promise.all(others.map((other) => isFree(other, port)));
    if (free.every(Boolean)) return url;
    await origin!.close();
  }
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = createServer().listen(port, host);
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  await once(server.close(), 'close');
  return true;
}

describe('an answer', () => {
  test('has status, headers, bytes and the address that gave it', async () => {
    const url = await serving(() => answerWith(201, { 'X-Thing': 'yes', 'set-cookie': 'a=1\r\nset-cookie: b=2' }, 'hello'));
    const answer = await localEgress().fetch(request(`${url}/path?q=1#part`));
    expect(answer).toMatchObject({ kind: 'answered', status: 201, address: '127.0.0.1', hops: 0, isTruncated: false });
    if (answer.kind !== 'answered') return;
    expect(answer.url).toBe(`${url}/path?q=1`);
    expect(answer.headers).toMatchObject({ 'x-thing': 'yes', 'set-cookie': 'a=1, b=2' });
    expect(Buffer.from(answer.body).toString()).toBe('hello');
  });

  test('comes from IPv6 as well', async () => {
    const url = await serving(() => answerWith(200, {}, 'six'), '::1');
    expect(await localEgress().fetch(request(url))).toMatchObject({ kind: 'answered', status: 200, address: '::1' });
  });

  test.each([204, 301, 304, 404, 410, 500, 503])('of status %i is an answer like any other', async (status) => {
    const url = await serving(() => `HTTP/1.1 ${status} x\r\nlocation: /elsewhere\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
    expect(await localEgress().fetch(request(url))).toMatchObject({ kind: 'answered', status, hops: 0 });
    expect(origin?.seen()).toHaveLength(1);
  });

  test('in chunks is put together, and one that lasts until the end of the connection too', async () => {
    const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n';
    const url = await serving(({ path }, socket) => {
      if (path === '/chunked') return chunked;
      socket.end('HTTP/1.1 200 OK\r\n\r\nabcde');
      return null;
    });
    for (const path of ['/chunked', '/until-end']) {
      const answer = await localEgress().fetch(request(url + path));
      expect(answer.kind === 'answered' && Buffer.from(answer.body).toString()).toBe('abcde');
    }
  });

  test.each(['drips', 'stops', 'breaks off'])('whose body %s is an answer for whoever waits for the status only', async (how) => {
    const url = await serving((_, socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nabc');
      const dripping = how === 'drips' ? setInterval(() => socket.write('x'), 5) : undefined;
      socket.on('close', () => clearInterval(dripping));
      if (how === 'breaks off') socket.end();
      return null;
    });
    const answer = await localEgress().fetch(request(url, { bodyWaitMs: 40 }));
    expect(answer).toMatchObject({ kind: 'answered', status: 200, isTruncated: true });
    expect(answer.kind === 'answered' && Buffer.from(answer.body).toString()).toMatch(/^abc/);
  });

  test('to HEAD has the length of a body and none', async () => {
    const url = await serving(() => 'HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n');
    const answer = await localEgress().fetch(request(url, { method: 'HEAD' }));
    expect(answer).toMatchObject({ kind: 'answered', headers: { 'content-length': '1000000' }, isTruncated: false });
  });

  test('cannot plant a prototype', async () => {
    const url = await serving(() => answerWith(200, { ['__proto__']: 'x', constructor: 'y' }));
    const answer = await localEgress().fetch(request(url));
    expect(answer.kind === 'answered' && Object.getPrototypeOf(answer.headers)).toBe(Object.prototype);
  });
});

describe('a request', () => {
  test('carries what the caller gives, and our own name and framing', async () => {
    const url = await serving(() => answerWith(200));
    const headers = { 'Content-Type': 'application/json', 'webhook-id': 'msg_1' };
    await localEgress().fetch(request(`${url}/hook?x=%20y`, { method: 'POST', body: Buffer.from('{"a":1}'), headers }));
    const seen = origin!.seen()[0]!;
    expect(seen).toMatchObject({ method: 'POST', path: '/hook?x=%20y', body: '{"a":1}' });
    for (const line of [
      `host: 127.0.0.1:${origin!.port}`,
      'connection: close',
      'content-length: 7',
      'content-type: application/json',
      'webhook-id: msg_1',
      'user-agent: Millrace/test',
      'accept-encoding: identity',
    ]) {
      expect(seen.headers.toLowerCase()).toContain(`${line.toLowerCase()}\r\n`);
    }
  });

  test('names the host of the URL, whatever address it has', async () => {
    const url = await serving(() => answerWith(200));
    const egress = localEgress({ resolver: namesOf({ 'hooks.test': ['127.0.0.1'] }) });
    const { port } = new URL(url);
    expect(await egress.fetch(request(`http://hooks.test:${port}/`))).toMatchObject({
      kind: 'answered',
      address: '127.0.0.1',
    });
    expect(origin?.seen()[0]?.headers.toLowerCase()).toContain(`host: hooks.test:${port}\r\n`);
  });

  test('has a connection of its own', async () => {
    const url = await serving(() => answerWith(200, { connection: 'keep-alive', 'keep-alive': 'timeout=60' }));
    const egress = localEgress();
    for (let n = 0; n < 3; n++) await egress.fetch(request(url));
    expect(origin?.accepted()).toBe(3);
  });

  test.each(['Host', 'connection', 'content-length', 'Transfer-Encoding', 'proxy-authorization', 'te', 'upgrade', 'bad name', ''])(
    'that sets the header %j is a mistake of the program',
    async (name) => {
      await expect(localEgress().fetch(request('http://127.0.0.1:1/', { headers: { [name]: 'x' } }))).rejects.toThrow(/header/);
    },
  );

  test('that smuggles a line into a header is a mistake of the program', async () => {
    const headers = { 'x-a': 'b\r\nhost: inside' };
    await expect(localEgress().fetch(request('http://127.0.0.1:1/', { headers }))).rejects.toThrow(/x-a/);
  });
});

describe('several addresses', () => {
  test('are tried in turn, IPv4 first, at most three', async () => {
    const url = await servingAlone('127.0.0.3', ['127.0.0.1', '127.0.0.2', '127.0.0.4']);
    const dialled: string[] = [];
    const onDial = ({ address }: { address: string }) => dialled.push(address);
    const resolver = namesOf({
      'some.test': ['::1', '127.0.0.1', '127.0.0.2', '127.0.0.3'],
      'many.test': ['127.0.0.1', '127.0.0.2', '127.0.0.4', '127.0.0.3'],
    });
    const egress = localEgress({ resolver, onDial });
    const { port } = new URL(url);
    expect(await egress.fetch(request(`http://some.test:${port}/`))).toMatchObject({
      kind: 'answered',
      address: '127.0.0.3',
    });
    expect(dialled).toEqual(['127.0.0.1', '127.0.0.2', '127.0.0.3']);
    expect(await egress.fetch(request(`http://many.test:${port}/`))).toMatchObject({ kind: 'failed', code: 'CONNECT' });
    expect(dialled).toHaveLength(6);
  });
});

describe('check', () => {
  const resolver = namesOf({ 'good.test': ['93.184.216.34'], 'bad.test': ['93.184.216.34', '10.0.0.1'] });

  test.each([
    ['https://good.test/hook', null],
    ['https://not-there-yet.test/hook', null],
    ['https://93.184.216.34/hook', null],
    ['https://bad.test/hook', 'ADDRESS'],
    ['https://10.0.0.1/hook', 'ADDRESS'],
    ['ftp://good.test/hook', 'SCHEME'],
    ['https://good.test:22/hook', 'PORT'],
  ])('of %s answers %s and dials nothing', async (url, code) => {
    const dialled: unknown[] = [];
    const egress = localEgress({ resolver, onDial: (dial) => dialled.push(dial) });
    expect((await egress.check(url))?.code ?? null).toBe(code);
    expect(dialled).toEqual([]);
  });

  test('does not tell what a name means inside', async () => {
    expect((await localEgress({ resolver }).check('https://bad.test/'))?.message).not.toContain('10.0.0.1');
  });

  test('takes a name that nobody could look up', async () => {
    const broken = { resolve: () => Promise.reject(new Error('SERVFAIL')) };
    expect(await localEgress({ resolver: broken }).check('https://good.test/')).toBeNull();
    const silent = { resolve: () => new Promise<never>(() => undefined) };
    expect(await localEgress({ resolver: silent, dnsTimeoutMs: 1 }).check('https://good.test/')).toBeNull();
  });
});
