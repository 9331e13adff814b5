import { Agent, request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { until } from '../until.ts';
import { bodyOf, dial, post, serve, testDoor } from './server-fixture.ts';

const KIB = 1_024;
const MIB = 1_048_576;

/** A handler that is entered and stays until it is let go. */
function gate() {
  const entered = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const hold = async () => {
    entered.resolve();
    await opened.promise;
  };
  return { hold, entered: entered.promise, open: () => opened.resolve() };
}

describe('a body', () => {
  it('may be as large as its route allows and no larger', async () => {
    const { url } = await serve();
    const fits = JSON.stringify({ a: 'x'.repeat(4_096 - 8) });
    expect(fits).toHaveLength(4_096);
    expect((await post(`${url}/test/echo`, fits)).status).toBe(200);
    const answer = await post(`${url}/test/echo`, `${fits} `);
    expect(answer.status).toBe(400);
    expect((await bodyOf(answer)).details).toEqual([
      { field: 'body', code: 'PAYLOAD_TOO_LARGE', message: 'body must not be larger than 4096 bytes' },
    ]);
  });

  it('that does not say how long it is is cut at the limit', async () => {
    const { port } = await serve();
    const socket = await dial(port);
    socket.write('POST /test/echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n');
    const chunk = `400\r\n${'x'.repeat(1_024)}\r\n`;
    for (let sent = 0; sent < 8; sent++) socket.write(chunk);
    await socket.whenClosed;
    expect(socket.received()).toMatch(/^HTTP\/1\.1 400 /);
    expect(socket.received()).toContain('PAYLOAD_TOO_LARGE');
    expect(socket.received().toLowerCase()).toContain('connection: close');
  });

  it('that is refused unread ends its connection, however much of it is still to come', async () => {
    const { port } = await serve();
    const socket = await dial(port);
    socket.write('POST /test/echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n');
    socket.write('GET /version HTTP/1.1\r\nhost: x\r\n\r\n');
    await socket.whenClosed;
    expect(socket.received().match(/HTTP\/1\.1/g)).toHaveLength(1);
    expect(socket.received()).toContain('PAYLOAD_TOO_LARGE');
  });

  it('that unpacks to far more than it is does not fill the memory', async () => {
    const { url } = await serve();
    const bomb = new Uint8Array(gzipSync(Buffer.alloc(256 * MIB, 0x20)));
    expect(bomb.length).toBeLessThan(MIB);
    const gzip = { 'content-encoding': 'gzip' };
    await post(`${url}/test/large`, bomb, gzip); // What is only needed once is there afterwards.
    globalThis.gc?.();
    const before = process.memoryUsage().rss;
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(`${url}/test/large`, bomb, gzip)));
    const grown = process.memoryUsage().rss - before;
    for (const answer of answers) {
      expect(answer.status).toBe(400);
      expect((await bodyOf(answer)).details[0].code).toBe('PAYLOAD_TOO_LARGE');
    }
    expect(grown).toBeLessThan(64 * MIB);
  });

  it('that unpacks to just what is allowed is read', async () => {
    const { url } = await serve();
    const body = JSON.stringify({ a: 'x'.repeat(MIB - 8) });
    const answer = await post(`${url}/test/large`, new Uint8Array(gzipSync(body)), { 'content-encoding': 'gzip' });
    expect(await bodyOf(answer)).toEqual({ size: MIB });
    const larger = new Uint8Array(gzipSync(`${body} `));
    expect((await post(`${url}/test/large`, larger, { 'content-encoding': 'gzip' })).status).toBe(400);
  });
});

describe('headers', () => {
  it('may have 16 KiB and no more', async () => {
    const { port, url } = await serve();
    const headers = (size: number) => `GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-large: ${'x'.repeat(size)}\r\n\r\n`;
    const small = await dial(port);
    small.write(headers(15 * KIB));
    await small.whenClosed;
    expect(small.received()).toMatch(/^HTTP\/1\.1 200 /);
    const large = await dial(port);
    large.write(headers(17 * KIB));
    await large.whenClosed;
    expect(large.received()).toMatch(/^HTTP\/1\.1 431 /);
    expect(JSON.parse(large.received().split('\r\n\r\n')[1] as string)).toMatchObject({ code: 'INVALID_REQUEST' });
    expect((await fetch(`${url}/version`)).status).toBe(200);
  });

  it('that come too slowly end the connection, however many do so, and others are answered meanwhile', async () => {
    const { port, url } = await serve({ headersTimeoutMs: 300 });
    const slow = await Promise.all(Array.from({ length: 100 }, () => dial(port)));
    // As slow, at a server that allows it for longer.
    const allowed = await dial((await serve({ headersTimeoutMs: 60_000, receiveTimeoutMs: 60_000 })).port);
    for (const socket of [...slow, allowed]) socket.write('GET /version HTTP/1.1\r\nhost: x\r\nx-drip: ');
    const drip = setInterval(() => {
      for (const socket of [...slow, allowed]) if (socket.writable) socket.write('x');
    }, 50);
    expect((await fetch(`${url}/version`)).status).toBe(200);
    await Promise.all(slow.map((socket) => socket.whenClosed));
    clearInterval(drip);
    expect(slow[0]?.received()).toMatch(/^HTTP\/1\.1 408 /);
    allowed.write('\r\nconnection: close\r\n\r\n');
    await allowed.whenClosed;
    expect(allowed.received()).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('that promise a body that does not come end the connection too', async () => {
    const { port } = await serve({ headersTimeoutMs: 200, receiveTimeoutMs: 400 });
    const socket = await dial(port);
    socket.write('POST /test/echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{');
    await socket.whenClosed;
    expect(socket.received()).not.toContain(' 200 ');
  });

  it.each([
    ['no HTTP', 'hello\r\n\r\n'],
    [
      'a request that could be read in two ways',
      'POST /test/echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['two lengths', 'POST /test/echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n12345'],
    ['a broken header', 'GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n'],
  ])('that are %s are refused with 400', async (_what, text) => {
    const { port, url } = await serve();
    const socket = await dial(port);
    socket.write(text);
    await socket.whenClosed;
    expect(socket.received()).toMatch(/^HTTP\/1\.1 400 /);
    expect(socket.received().toLowerCase()).toContain('x-request-id: ');
    expect((await fetch(`${url}/version`)).status).toBe(200);
  });
});

describe('requests under way', () => {
  it('are bounded: one more is answered 503 with Retry-After, and probes are answered all the same', async () => {
    const { hold, entered, open } = gate();
    const { url } = await serve({ maxInFlight: 1, doors: [testDoor({ hold })] });
    const first = fetch(`${url}/test/hold`);
    await entered;
    const second = await fetch(`${url}/test/orders`);
    expect(second.status).toBe(503);
    expect(second.headers.get('retry-after')).toBe('1');
    expect(await bodyOf(second)).toMatchObject({ door: 'test', code: 'UNAVAILABLE' });
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    open();
    expect((await first).status).toBe(200);
    await until('the server has room again', async () => (await fetch(`${url}/test/orders`)).status, 200);
  });

  it('whose clients left make room again', async () => {
    const { hold, entered, open } = gate();
    const { url, port } = await serve({ maxInFlight: 1, doors: [testDoor({ hold })] });
    const socket = await dial(port);
    socket.write('GET /test/hold HTTP/1.1\r\nhost: x\r\n\r\n');
    await entered;
    socket.destroy();
    await until('the server has room again', async () => (await fetch(`${url}/test/orders`)).status, 200);
    open();
  });

  it('have a time: later they are answered 503, and what the handler says then is dropped', async () => {
    const { hold, entered, open } = gate();
    const { url } = await serve({ requestTimeoutMs: 100, doors: [testDoor({ hold })] });
    let answer = await fetch(`${url}/test/hold`);
    let isEntered = false;
    void entered.then(() => {
      isEntered = true;
    });
    // On a busy machine the time may be over before the handler is entered.
    await until('a request was in its handler when its time was over', async () => {
      if (!isEntered) answer = await fetch(`${url}/test/hold`);
      return isEntered;
    });
    expect(answer.status).toBe(503);
    expect(answer.headers.get('retry-after')).toBe('1');
    expect(await bodyOf(answer)).toMatchObject({ code: 'UNAVAILABLE' });
    open();
    await until('the next request is answered in time', async () => (await fetch(`${url}/test/orders`)).status, 200);
  });

  it('finish when the server closes, and the connection with them', async () => {
    const { hold, entered, open } = gate();
    const { http, port } = await serve({ doors: [testDoor({ hold })] });
    const agent = new Agent({ keepAlive: true });
    const answered = new Promise<{ status: number | undefined; connection: string | undefined }>((resolve, reject) => {
      request({ port, host: '127.0.0.1', path: '/test/hold', agent }, (answer) => {
        answer.resume();
        answer.on('end', () => resolve({ status: answer.statusCode, connection: answer.headers.connection }));
      })
        .on('error', reject)
        .end();
    });
    await entered;
    const closed = http.close();
    open();
    expect((await answered).status).toBe(200);
    await closed;
    await expect(fetch(`http://127.0.0.1:${port}/version`)).rejects.toThrow();
    agent.destroy();
  });
});
