import { createHash } from 'node:crypto';
import { afterEach, expect, test } from 'vitest';
import type { DownloadStore } from '../../src/core/ingest/download-store.ts';
import { makeCertificate } from '../egress/certificates.ts';
import { localEgress } from '../egress/local-egress.ts';
import { type Origin, openOrigin, type Script } from '../egress/origin.ts';
import { bytesOf } from '../objects/bytes.ts';
import { until } from '../until.ts';
import { taskFor, useStage, wordOf } from './fetch-fixture.ts';

const stage = useStage();
const MIB = 1024 * 1024;
const SIZE = 20 * MIB + 12_345;
/** Each file differs, so that memory that is used again too early shows. */
const CONTENTS = [1, 2, 3, 4].map((seed) => bytesOf(SIZE, seed));
const CONTENT = CONTENTS[0] as Buffer;
const LIMITS = { maxBytes: 1_000 * MIB };
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

let origin: Origin | undefined;
afterEach(() => origin?.close());

async function serve(script: Script): Promise<string> {
  origin = await openOrigin(script);
  return `http://127.0.0.1:${origin.port}`;
}

const head = (fields: string) => Buffer.from(`HTTP/1.1 200 OK\r\netag: "v1"\r\n${fields}\r\n\r\n`);
const withLength = (body: Buffer, length = body.length) => Buffer.concat([head(`content-length: ${length}`), body]);

function inChunks(body: Buffer): Buffer {
  const pieces: Buffer[] = [head('transfer-encoding: chunked')];
  for (let from = 0, size = 1; from < body.length; from += size, size = (size * 7) % 300_007) {
    const piece = body.subarray(from, from + size);
    pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
  }
  return Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')]);
}

test.each<[string, Script]>([
  ['with a length', () => withLength(CONTENT)],
  ['in chunks', () => inChunks(CONTENT)],
  [
    'that ends with the connection',
    (_, socket) => {
      socket.end(Buffer.concat([head('connection: close'), CONTENT]));
      return null;
    },
  ],
])('a large body %s is stored byte for byte, and hashed', async (_, script) => {
  const task = taskFor(`${await serve(script)}/file`);
  const end = await stage.run(task, { limits: LIMITS });
  expect(end).toMatchObject({ kind: 'completed', result: { bytes: SIZE, sha256: sha256(CONTENT) } });
  expect((await stage.objectOf(task))?.equals(CONTENT)).toBe(true);
});

test('so is one over TLS', async () => {
  const certificate = makeCertificate(['127.0.0.1']);
  origin = await openOrigin(() => withLength(CONTENT), { tls: certificate });
  const egress = localEgress({ tls: { ca: certificate.cert } });
  const task = taskFor(`https://127.0.0.1:${origin.port}/file`);
  expect(await stage.run(task, { egress, limits: LIMITS })).toMatchObject({ kind: 'completed', result: { sha256: sha256(CONTENT) } });
  egress.close();
});

test('downloads at the same time and on the same connections do not share memory that is in use', async () => {
  const url = await serve(({ path }) =>
    path === '/small' ? withLength(Buffer.from('small')) : withLength(CONTENTS[Number(path.slice(1))]!),
  );
  for (let round = 0; round < 3; round++) {
    const ends = await Promise.all(
      CONTENTS.map(async (content, n) => {
        const small = await stage.run(taskFor(`${url}/small`), { limits: LIMITS });
        const task = taskFor(`${url}/${n}`);
        const end = await stage.run(task, { limits: LIMITS });
        const isSame = (await stage.objectOf(task))?.equals(content);
        return [wordOf(small), wordOf(end), isSame, end.kind === 'completed' && end.result.sha256 === sha256(content)];
      }),
    );
    for (const end of ends) expect(end).toEqual(['stored 5', `stored ${SIZE}`, true, true]);
  }
});

test.each([
  ['one byte less than it said', withLength(CONTENT.subarray(0, -1), SIZE), 'temporary TRUNCATED'],
  ['one byte more than it said', withLength(Buffer.concat([CONTENT, Buffer.from('x')]), SIZE), `stored ${SIZE}`],
])('the server sends %s', async (_, answer, word) => {
  const url = await serve((__, socket) => {
    socket.end(answer);
    return null;
  });
  const task = taskFor(`${url}/file`);
  expect(wordOf(await stage.run(task, { limits: LIMITS }))).toBe(word);
  const object = await stage.objectOf(task);
  if (word.startsWith('stored')) expect(object?.equals(CONTENT)).toBe(true);
  else expect(object).toBeNull();
});

test.each([
  ['a length', () => withLength(CONTENT)],
  ['chunks', () => inChunks(CONTENT)],
])('the limit counts each byte of a body with %s', async (_, script) => {
  const url = await serve(script);
  const run = (maxBytes: number) => stage.run(taskFor(`${url}/file`), { limits: { maxBytes } });
  expect(wordOf(await run(SIZE))).toBe(`stored ${SIZE}`);
  expect(wordOf(await run(SIZE - 1))).toBe('permanent TOO_LARGE');
});

test('an abort in the middle ends the download, and leaves no object', async () => {
  const controller = new AbortController();
  const url = await serve((_, socket) => {
    socket.write(head(`content-length: ${SIZE}`));
    socket.write(CONTENT.subarray(0, SIZE / 2), () => controller.abort(new Error('stop')));
    return null;
  });
  const task = taskFor(`${url}/file`);
  const end = await stage.run(task, { limits: LIMITS, context: { signal: controller.signal } });
  expect(end).toMatchObject({ kind: 'aborted', reason: { message: 'stop' } });
  expect(await stage.objectOf(task)).toBeNull();
});

/** A store whose uploads do something else at a write. */
function storeWith(onWrite: (count: number) => Promise<void>): { store: DownloadStore; writes: () => number } {
  let count = 0;
  const store: DownloadStore = {
    head: (name) => stage.store.head(name),
    put: (name, bytes, description) => stage.store.put(name, bytes, description),
    upload: async (name, options) => {
      const upload = await stage.store.upload(name, options);
      const write = async (chunk: Uint8Array) => {
        await onWrite(++count);
        await upload.write(chunk);
      };
      return {
        offset: upload.offset,
        stored: () => upload.stored(),
        write,
        complete: (description) => upload.complete(description),
        abort: () => upload.abort(),
        close: () => upload.close(),
      };
    },
  };
  return { store, writes: () => count };
}

test('a store that fails in the middle gets no more bytes, and the next attempt continues what is whole', async () => {
  const url = await serve(({ headers }) => {
    const from = Number(/^range: bytes=(\d+)-/im.exec(headers)?.[1] ?? 0);
    if (from === 0) return withLength(CONTENT);
    const fields = `etag: "v1"\r\ncontent-range: bytes ${from}-${SIZE - 1}/${SIZE}\r\ncontent-length: ${SIZE - from}`;
    return Buffer.concat([Buffer.from(`HTTP/1.1 206 Partial\r\n${fields}\r\n\r\n`), CONTENT.subarray(from)]);
  });
  const { store, writes } = storeWith(async (count) => {
    if (count === 9) throw Object.assign(new Error('full'), { code: 'STORE_FULL' });
  });
  const task = taskFor(`${url}/file`);
  let state: unknown = null;
  const context = {
    jobId: 'large-resumed',
    checkpoint: async (saved: unknown) => {
      state = saved;
    },
    lastCheckpoint: async <T>() => state as T,
  };
  expect(wordOf(await stage.run(task, { store, limits: LIMITS, context }))).toBe('temporary STORAGE_UNAVAILABLE');
  expect(writes()).toBe(9);
  const end = await stage.run(task, { limits: LIMITS, context: { ...context, attempt: 2 } });
  expect(end).toMatchObject({ kind: 'completed', result: { httpStatus: 206, bytes: SIZE, sha256: sha256(CONTENT) } });
  expect(origin!.seen().at(-1)?.headers).toMatch(/^range: bytes=[1-9]/im);
});

test('a slow store holds the server back', async () => {
  const open = Promise.withResolvers<void>();
  let sent = 0;
  const url = await serve(({ path }, socket) => {
    if (path === '/other') return withLength(CONTENT);
    const pour = () => {
      while (sent < 200) {
        sent++;
        if (!socket.write(CONTENT.subarray(0, MIB))) return void socket.once('drain', pour);
      }
    };
    socket.write(head(`content-length: ${200 * MIB}`));
    pour();
    return null;
  });
  const { store, writes } = storeWith((count) => (count === 3 ? open.promise : Promise.resolve()));
  const running = stage.run(taskFor(`${url}/file`), { store, limits: LIMITS });
  await until('the store hangs', () => writes() === 3);
  // Long enough for the rest to arrive if nothing held it back.
  for (let n = 0; n < 3; n++) await stage.run(taskFor(`${url}/other`), { limits: LIMITS });
  expect(writes()).toBe(3);
  // The system has buffers of several MiB at both ends.
  expect(sent).toBeLessThan(60);
  open.resolve();
  expect(wordOf(await running)).toBe(`stored ${200 * MIB}`);
});
