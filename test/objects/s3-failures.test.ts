import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { inspect } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { S3Store } from '../../src/objects/s3-store.ts';
import { bytesOf, collect, contentOf, digest, MB } from './bytes.ts';
import { CREDENTIALS } from './s3-signature.ts';
import { startS3 } from './start-s3.ts';

let server: Awaited<ReturnType<typeof startS3>>;
let store: S3Store;

beforeAll(async () => {
  server = await startS3();
  store = new S3Store(server.options);
});

afterAll(async () => {
  await store.close();
  await server.stop();
});

const name = (key: string) => ({ bucket: 'conformance', key });

/** Every call that can fail in this way. */
const callsOf = (store: S3Store, bucket: string) => [
  () => store.put({ bucket, key: 'a' }, Buffer.from('x')),
  () => store.put({ bucket, key: 'a' }, bytesOf(9 * MB)),
  () => store.get({ bucket, key: 'a' }),
  () => store.list({ bucket, prefix: '', limit: 1 }),
  () => store.delete({ bucket, key: 'a' }),
  () => store.upload({ bucket, key: 'a' }, { uploadId: 'a' }),
  () => store.sweepUploads({ bucket, before: new Date(), limit: 1 }),
  () => store.check(bucket),
];

it('says that a bucket is missing', async () => {
  for (const call of callsOf(store, 'no-such-bucket')) {
    await expect(call()).rejects.toMatchObject({ name: 'ObjectStoreError', code: 'BUCKET_MISSING', message: /Create the bucket/ });
  }
});

it('says that the credentials are wrong, without showing them', async () => {
  const secretAccessKey = 'a-wrong-secret-of-somebody';
  const wrong = new S3Store({ ...server.options, secretAccessKey });
  for (const call of [...callsOf(wrong, 'conformance'), () => wrong.head(name('a'))]) {
    const error = await call().then(
      () => null,
      (caught: Error) => caught,
    );
    expect(error).toMatchObject({ code: 'ACCESS_DENIED', message: expect.stringContaining('Check the credentials') });
    const shown = inspect(error, { depth: 20, showHidden: true });
    expect(shown).not.toContain(secretAccessKey);
    expect(shown).not.toContain(CREDENTIALS.accessKeyId);
    expect(shown).not.toContain('Signature=');
  }
  await wrong.close();
});

it('says that nobody listens', async () => {
  // Not a port that was free a moment ago: another process may have it by now.
  const absent = new S3Store({ ...server.options, endpoint: 'http://127.0.0.1:1' });
  for (const call of callsOf(absent, 'conformance')) {
    await expect(call()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE', isTemporary: true, message: /ECONNREFUSED/ });
  }
  await absent.close();
});

it.each(['ftp://127.0.0.1', 'http://user:password@127.0.0.1', 'not an address'])(
  'refuses the endpoint %s, without showing it',
  (endpoint) => {
    expect(() => new S3Store({ ...server.options, endpoint })).toThrow(/must be an http or https address without credentials/);
    expect(() => new S3Store({ ...server.options, endpoint })).not.toThrow(/password/);
  },
);

it('takes no more from a body than about two parts while the service is slow', async () => {
  const held: Socket[] = [];
  let received = 0;
  let isSlow = true;
  const { promise: stalled, resolve: stall } = Promise.withResolvers<void>();
  const proxy = createServer((client) => {
    const upstream = connect(server.port, '127.0.0.1');
    client.on('error', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
    upstream.pipe(client);
    client.on('data', (chunk) => {
      received += chunk.length;
      upstream.write(chunk);
      if (!isSlow || received < 12 * MB) return;
      held.push(client.pause());
      stall();
    });
    client.on('end', () => upstream.end());
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as { port: number };
  const slow = new S3Store({ ...server.options, endpoint: `http://127.0.0.1:${port}` });
  const whole = bytesOf(48 * MB);
  let sent = 0;
  let ahead = 0;
  async function* body() {
    for (; sent < whole.length; sent += MB) {
      ahead = Math.max(ahead, sent - received);
      yield whole.subarray(sent, sent + MB);
    }
  }
  const put = slow.put(name('slow'), body());
  await stalled;
  isSlow = false;
  for (const socket of held) socket.resume();
  await put;
  expect(ahead).toBeGreaterThan(0);
  expect(ahead).toBeLessThanOrEqual(17 * MB);
  expect(digest((await contentOf(store, name('slow')))!)).toBe(digest(whole));
  await slow.close();
  proxy.close();
});

it('leaves nothing visible if the writer is killed, and continues its upload', async () => {
  const child = fork(new URL('./s3-killed-writer.ts', import.meta.url), [JSON.stringify(server.options)]);
  const [, signal] = await once(child, 'exit');
  expect(signal).toBe('SIGKILL');
  const bytes = bytesOf(20 * MB);
  expect((await store.list({ bucket: 'conformance', prefix: 'killed-', limit: 10 })).items).toEqual([]);
  const upload = await store.upload(name('killed-upload'), { uploadId: 'killed' });
  expect(upload.offset).toBe(16 * MB);
  expect(digest(await collect(upload.stored()))).toBe(digest(bytes.subarray(0, upload.offset)));
  await upload.write(bytes.subarray(upload.offset));
  await upload.complete();
  expect(digest((await contentOf(store, name('killed-upload')))!)).toBe(digest(bytes));
});

it('lists no parts of uploads, and goes on after them', async () => {
  const bucket = 'other-bucket';
  for (const key of ['.a', '.millrace/other', '.millrace/z', 'b']) await store.put({ bucket, key }, Buffer.from(key));
  for (const uploadId of ['1', '2', '3']) {
    const upload = await store.upload({ bucket, key: 'c' }, { uploadId });
    await upload.write(bytesOf(8 * MB));
    await upload.close();
  }
  const pages: string[][] = [];
  for (let after: string | undefined; ; ) {
    const { items, next } = await store.list({ bucket, prefix: '', after, limit: 2 });
    pages.push(items.map(({ key }) => key));
    if (next === null) break;
    after = next;
  }
  expect(pages).toEqual([
    ['.a', '.millrace/other'],
    ['.millrace/z', 'b'],
  ]);
});

it('uses bounded memory to put and to get 160 MB', async () => {
  for (const call of ['put', 'get']) {
    const child = fork(new URL('./s3-memory.ts', import.meta.url), [JSON.stringify(server.options), call]);
    const [{ grownBytes, size }] = (await once(child, 'message')) as [{ grownBytes: number; size: number }];
    expect(size).toBe(160 * MB);
    expect(grownBytes).toBeLessThan(100 * MB);
  }
});
