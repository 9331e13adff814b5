import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { until } from '../until.ts';
import { bodyOf, dial, post, serve, testDoor } from './server-fixture.ts';

const KIB = 1_024;
const GZIP = { 'content-encoding': 'gzip' };

/** A server with 2 MB for bodies, and a route that keeps a request until it is let go. */
async function serveHolding() {
  let entered = 0;
  const opened = Promise.withResolvers<void>();
  const hold = async () => {
    entered++;
    await opened.promise;
  };
  const served = await serve({ bodyMemoryBytes: 2_048 * KIB, doors: [testDoor({ hold })] });
  const whenEntered = (count: number) => until(`${count} requests are held`, () => entered, count);
  return { ...served, whenEntered, open: () => opened.resolve() };
}

const bodyOfSize = (bytes: number): string => JSON.stringify({ a: 'x'.repeat(bytes - 8) });

describe('the bodies of all requests', () => {
  const large = bodyOfSize(900 * KIB);

  it.each([
    ['plain', large, {}],
    ['inflated', new Uint8Array(gzipSync(large)), GZIP],
  ])('have a budget until they are answered: %s, one more gets 503 with Retry-After', async (_what, body, headers) => {
    const { url, whenEntered, open } = await serveHolding();
    const first = post(`${url}/test/keep`, body, headers);
    await whenEntered(1);
    const refused = await post(`${url}/test/keep`, body, headers);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await bodyOf(refused)).toMatchObject({ door: 'test', code: 'UNAVAILABLE' });
    expect((await post(`${url}/test/orders`, '{"name":"a"}')).status).toBe(200);
    open();
    expect((await first).status).toBe(200);
    await until('there is room again', async () => (await post(`${url}/test/keep`, body, headers)).status, 200);
  });

  it('that do not say how long they are are counted while they arrive', async () => {
    const { port, url, whenEntered, open } = await serveHolding();
    const first = post(`${url}/test/keep`, large);
    await whenEntered(1);
    const socket = await dial(port);
    socket.write('POST /test/keep HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n');
    const chunk = `10000\r\n${' '.repeat(64 * KIB)}\r\n`;
    for (let sent = 0; sent < 14; sent++) socket.write(chunk);
    await socket.whenClosed;
    expect(socket.received()).toMatch(/^HTTP\/1\.1 503 /);
    open();
    expect((await first).status).toBe(200);
  });

  it('of clients that left make room again', async () => {
    const { port, url, whenEntered, open } = await serveHolding();
    const socket = await dial(port);
    socket.write(
      `POST /test/keep HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${large.length}\r\n\r\n${large}`,
    );
    await whenEntered(1);
    expect((await post(`${url}/test/keep`, large)).status).toBe(503);
    socket.destroy();
    const second = until(
      'there is room',
      async () => {
        const answer = post(`${url}/test/keep`, large);
        open();
        return (await answer).status;
      },
      200,
    );
    await second;
  });
});

describe('a body that comes too slowly', () => {
  it('ends its connection with 408, whatever it announced', async () => {
    const { port, url } = await serve({ minUploadRate: 1_000_000, uploadGraceMs: 100 });
    const announcements = ['content-length: 100', 'content-length: 4000', 'transfer-encoding: chunked'];
    const sockets = await Promise.all(announcements.map(() => dial(port)));
    for (const [index, socket] of sockets.entries()) {
      socket.write(`POST /test/echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${announcements[index]}\r\n\r\n1`);
    }
    await Promise.all(sockets.map((socket) => socket.whenClosed));
    for (const socket of sockets) expect(socket.received()).toMatch(/^HTTP\/1\.1 408 /);
    await until('a body that comes quickly is read', async () => (await post(`${url}/test/echo`, '{}')).status, 200);
  });

  it('may be slow when the rate allows it', async () => {
    const { port } = await serve({ minUploadRate: 1, uploadGraceMs: 20 });
    const socket = await dial(port);
    const chunks = [' '.repeat(100), ' '.repeat(100), ' '.repeat(100), `${' '.repeat(98)}{}`];
    const head = 'POST /test/echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n';
    socket.write(head + chunks.shift());
    const { promise: isSent, resolve } = Promise.withResolvers<void>();
    const drip = setInterval(() => {
      const chunk = chunks.shift();
      if (chunk === undefined) resolve();
      else socket.write(chunk);
    }, 50);
    await isSent;
    clearInterval(drip);
    await until('the request is answered', () => socket.received().slice(0, 15), 'HTTP/1.1 200 OK');
  });
});
