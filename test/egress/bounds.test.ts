import { buffer } from 'node:stream/consumers';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { EgressRequest } from '../../src/egress/egress.ts';
import { until } from '../until.ts';
import { localEgress, request } from './local-egress.ts';
import { answerWith, type Origin, openOrigin, type Script } from './origin.ts';

let origin: Origin | undefined;
afterEach(() => {
  vi.useRealTimers();
  return origin?.close();
});

async function serving(script: Script): Promise<string> {
  origin = await openOrigin(script);
  return `http://127.0.0.1:${origin.port}`;
}

const HEAD = 'HTTP/1.1 200 OK\r\n';
const ENDLESS: Script = (_, socket) => {
  socket.write(`${HEAD}\r\n`);
  const pour = () => {
    while (socket.writable && socket.write('x'.repeat(65_536)));
  };
  socket.on('drain', pour);
  pour();
  return null;
};

/** From here on a time limit ends only when the test says so: a machine that is slow at one step must not end the exchange there. */
function stopTime(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
}

function hangUp(text: string): Script {
  return (_, socket) => {
    socket.end(text);
    return null;
  };
}

describe('the size of a body', () => {
  test.each([
    [10, 'fail', 'x'.repeat(10), false],
    [10, 'truncate', 'x'.repeat(10), false],
    [9, 'truncate', 'x'.repeat(9), true],
    [0, 'truncate', '', true],
  ] as const)('of ten bytes under a bound of %i (%s)', async (maxBodyBytes, overflow, text, isTruncated) => {
    const url = await serving(() => answerWith(200, {}, 'x'.repeat(10)));
    const answer = await localEgress().fetch(request(url, { maxBodyBytes, overflow }));
    expect(answer).toMatchObject({ kind: 'answered', isTruncated });
    expect(answer.kind === 'answered' && Buffer.from(answer.body).toString()).toBe(text);
  });

  test('is too large when announced, before it is read', async () => {
    const url = await serving(() => `${HEAD}content-length: 11\r\n\r\n`);
    expect(await localEgress().fetch(request(url, { maxBodyBytes: 10 }))).toMatchObject({
      kind: 'failed',
      code: 'TOO_LARGE',
    });
  });

  test('is too large when it turns out so, and an endless one is cut off', async () => {
    const url = await serving(ENDLESS);
    const egress = localEgress();
    expect(await egress.fetch(request(url))).toMatchObject({ kind: 'failed', code: 'TOO_LARGE' });
    const answer = await egress.fetch(request(url, { overflow: 'truncate' }));
    expect(answer.kind === 'answered' && [answer.body.length, answer.isTruncated]).toEqual([10_000, true]);
  });

  test('is counted as sent: nothing is decompressed', async () => {
    const url = await serving(() => answerWith(200, { 'content-encoding': 'gzip' }, 'not gzip'));
    const answer = await localEgress().fetch(request(url));
    expect(answer.kind === 'answered' && Buffer.from(answer.body).toString()).toBe('not gzip');
  });
});

describe('the time of an exchange', () => {
  const never = () => new Promise<never>(() => undefined);

  test.each<[string, Script]>([
    ['the headers', () => null],
    ['the rest of the headers', () => `${HEAD}x-half: `],
    ['an answer behind endless informational ones', () => 'HTTP/1.1 103 Early\r\n\r\n'.repeat(50)],
    ['the body', () => `${HEAD}content-length: 5\r\n\r\n`],
    ['the rest of the body', () => `${HEAD}content-length: 5\r\n\r\nab`],
    [
      'the end of an endless body',
      (_, socket) => {
        socket.write(`${HEAD}\r\n`);
        const timer = setInterval(() => socket.write('x'), 5);
        socket.once('close', () => clearInterval(timer));
        return null;
      },
    ],
  ])('ends while it waits for %s', async (_, script) => {
    const url = await serving(script);
    const closed = serverSideClose();
    const answer = await localEgress().fetch(request(url, { timeoutMs: 100 }));
    expect(answer).toMatchObject({ kind: 'failed', code: 'TIMEOUT', message: expect.stringContaining('100 ms') });
    // On a busy machine the time may be over before the connection is made.
    if (origin!.accepted() > 0) await closed;
  });

  test('ends while it waits for the DNS', async () => {
    const egress = localEgress({ resolver: { resolve: never } });
    expect(await egress.fetch(request('http://slow.test/', { timeoutMs: 50 }))).toMatchObject({ code: 'TIMEOUT' });
  });

  test('ends in TLS with a server that says nothing', async () => {
    const url = await serving(() => null);
    const secure = url.replace('http:', 'https:');
    expect(await localEgress().fetch(request(secure, { timeoutMs: 50 }))).toMatchObject({ code: 'TIMEOUT' });
    stopTime();
    const before = origin!.bytes();
    const failing = localEgress({ connectTimeoutMs: 50 }).fetch(request(secure));
    // The limit of the connection is over when the handshake begins, and the one of the handshake has begun.
    await until('the server has the first message of the handshake', () => origin!.bytes() > before);
    await vi.advanceTimersByTimeAsync(50);
    expect(await failing).toMatchObject({ code: 'TLS' });
  });

  test('the DNS and the connection have bounds of their own', async () => {
    const egress = localEgress({ resolver: { resolve: never }, dnsTimeoutMs: 30 });
    expect(await egress.fetch(request('http://slow.test/'))).toMatchObject({ kind: 'failed', code: 'DNS' });
  });

  test('ends when no byte comes for the idle time', async () => {
    const url = await serving(() => `${HEAD}content-length: 5\r\n\r\nab`);
    const answer = await localEgress().fetch(request(url, { idleTimeoutMs: 50 }));
    expect(answer).toMatchObject({
      kind: 'failed',
      code: 'IDLE',
      message: expect.stringContaining('no data arrived'),
    });
  });

  test('ends when the caller gives up, before or during it', async () => {
    const url = await serving(() => {
      caller.abort();
      return null;
    });
    const caller = new AbortController();
    const call: EgressRequest = request(url, { signal: caller.signal });
    expect(await localEgress().fetch(call)).toMatchObject({ kind: 'failed', code: 'ABORTED' });
    expect(await localEgress().fetch(call)).toMatchObject({ kind: 'failed', code: 'ABORTED' });
    expect(origin?.accepted()).toBe(1);
  });
});

/** Resolves when the connection of the next request is gone on the server's side. */
function serverSideClose(): Promise<void> {
  return origin!.nextClose();
}

describe('a server that does not behave', () => {
  test.each<[string, string, Script]>([
    ['RESET', 'closes without a word', hangUp('')],
    [
      'RESET',
      'resets the connection',
      (_, socket) => {
        socket.resetAndDestroy();
        return null;
      },
    ],
    ['RESET', 'closes in the middle of a body', hangUp(`${HEAD}content-length: 5\r\n\r\nab`)],
    ['PROTOCOL', 'does not speak HTTP', () => 'SSH-2.0-OpenSSH_9.9\r\n'],
    ['PROTOCOL', 'sends more than 16 KiB of headers', () => `${HEAD}x: ${'a'.repeat(17_000)}\r\n\r\n`],
    ['PROTOCOL', 'sends a broken chunk', () => `${HEAD}transfer-encoding: chunked\r\n\r\nzz\r\n`],
    ['PROTOCOL', 'says two lengths', () => `${HEAD}content-length: 1\r\ncontent-length: 2\r\n\r\nab`],
    ['PROTOCOL', 'says a length and chunks', () => `${HEAD}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['RESET', 'switches protocols', () => 'HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'],
  ])('gives %s: it %s', async (code, _, script) => {
    const url = await serving(script);
    expect(await localEgress().fetch(request(url))).toMatchObject({ kind: 'failed', code });
  });

  test('is not there: CONNECT', async () => {
    const url = await serving(() => null);
    await origin?.close();
    expect(await localEgress().fetch(request(url))).toMatchObject({ kind: 'failed', code: 'CONNECT' });
  });

  test('has no address: DNS', async () => {
    expect(await localEgress().fetch(request('http://nowhere.test/'))).toMatchObject({ kind: 'failed', code: 'DNS' });
  });
});

describe('a streamed body', () => {
  test('comes with the headers and then as a stream', async () => {
    const url = await serving(() => answerWith(200, {}, 'streamed'));
    const stream = await localEgress().open(request(url));
    expect(stream).toMatchObject({ kind: 'opened', status: 200 });
    expect(stream.kind === 'opened' && (await buffer(stream.body)).toString()).toBe('streamed');
  });

  test.each([
    ['TOO_LARGE', ENDLESS, {}],
    ['TIMEOUT', () => `${HEAD}content-length: 5\r\n\r\nab`, { timeoutMs: 100 }],
    ['IDLE', () => `${HEAD}content-length: 5\r\n\r\nab`, { idleTimeoutMs: 50 }],
    ['RESET', hangUp(`${HEAD}content-length: 5\r\n\r\nab`), {}],
  ] as const)('fails with %s', async (code, script, rest) => {
    const url = await serving(script);
    stopTime();
    const stream = await localEgress().open(request(url, rest));
    if (stream.kind !== 'opened') throw new Error(stream.message);
    const failing = expect(buffer(stream.body)).rejects.toMatchObject({ name: 'EgressBodyError', code });
    // The idle time begins anew with each piece, and the only one may still be on its way.
    const ended = failing.then(() => true);
    await until('the stream has ended', async () => {
      await vi.advanceTimersByTimeAsync(100);
      return Promise.race([ended, Promise.resolve(false)]);
    });
    await failing;
  });

  test('is cut at its bound when that is asked for', async () => {
    const stream = await localEgress().open(request(await serving(ENDLESS), { overflow: 'truncate' }));
    expect(stream.kind === 'opened' && (await buffer(stream.body)).length).toBe(10_000);
  });

  test.each<[string, Script]>([
    ['while bytes come', ENDLESS],
    ['while none comes', () => `${HEAD}content-length: 5\r\n\r\nab`],
  ])('that nobody reads any more lets go of its connection %s', async (_, script) => {
    const url = await serving(script);
    const closed = serverSideClose();
    const stream = await localEgress().open(request(url, { maxBodyBytes: 1e9 }));
    if (stream.kind !== 'opened') throw new Error(stream.message);
    await stream.body[Symbol.asyncIterator]().next();
    stream.body.destroy();
    await closed;
  });

  test('that nobody ever reads ends with the deadline', async () => {
    const url = await serving(ENDLESS);
    const closed = serverSideClose();
    stopTime();
    const stream = await localEgress().open(request(url, { maxBodyBytes: 1e9, timeoutMs: 100 }));
    await vi.advanceTimersByTimeAsync(100);
    await closed;
    expect(stream.kind === 'opened' && stream.body.errored).toMatchObject({ code: 'TIMEOUT' });
  });
});

describe('a short body', () => {
  const SHORT = { wholeUpToBytes: 100 };

  test('comes whole if its length is announced', async () => {
    const url = await serving(() => answerWith(200, {}, 'whole'));
    const answer = await localEgress().openOrRead({ ...request(url), ...SHORT });
    expect(answer.kind === 'opened' && Buffer.from(answer.body as Uint8Array).toString()).toBe('whole');
  });

  test.each<[string, Script]>([
    ['longer than asked for', () => answerWith(200, {}, 'x'.repeat(101))],
    ['of unknown length', () => `${HEAD}transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n`],
  ])('is a stream if it is %s', async (_, script) => {
    const answer = await localEgress().openOrRead({ ...request(await serving(script)), ...SHORT });
    if (answer.kind !== 'opened' || answer.body instanceof Uint8Array) throw new Error('it is no stream');
    expect((await buffer(answer.body)).toString()).toMatch(/^x+$/);
  });

  test.each([
    ['TIMEOUT', () => `${HEAD}content-length: 5\r\n\r\nab`, { timeoutMs: 100 }],
    ['IDLE', () => `${HEAD}content-length: 5\r\n\r\nab`, { idleTimeoutMs: 50 }],
    ['RESET', hangUp(`${HEAD}content-length: 5\r\n\r\nab`), {}],
  ] as const)('that does not arrive is a stream that fails with %s', async (code, script, rest) => {
    const url = await serving(script);
    const gone = serverSideClose();
    const answer = await localEgress().openOrRead({ ...request(url, rest), ...SHORT });
    if (answer.kind !== 'opened' || answer.body instanceof Uint8Array) throw new Error('it is no stream');
    await expect(buffer(answer.body)).rejects.toMatchObject({ name: 'EgressBodyError', code });
    await gone;
  });
});
