import { createHash } from 'node:crypto';
import { afterEach, expect, test } from 'vitest';
import type { IngestLogLine } from '../../src/core/ingest/log-line.ts';
import { type Origin, openOrigin, type Seen } from '../egress/origin.ts';
import { until } from '../until.ts';
import { OpenGate, taskFor, useStage, wordOf } from './fetch-fixture.ts';

const stage = useStage();
let origin: Origin | undefined;
afterEach(() => origin?.close());

const SIZE = 6_000_000;
const contentOf = (version: number): Buffer => {
  const content = Buffer.alloc(SIZE);
  for (let at = 0; at < SIZE; at += 4) content.writeUInt32LE((at * 2_654_435_761 + version) >>> 0, at);
  return content;
};
const CONTENT = contentOf(1);
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
const rangeOf = ({ headers }: Seen): number | null => {
  const from = /^range: bytes=(\d+)-/im.exec(headers)?.[1];
  return from === undefined ? null : Number(from);
};
const ifRangeOf = ({ headers }: Seen): string | undefined => /^if-range: (.*)\r$/im.exec(headers)?.[1];

type Server = {
  /** After how many bytes of a response the connection is cut; undefined: never. */
  cutAfter(request: number): number | undefined;
  headers?: string;
  version?(request: number): number;
  /** Replaces the response to a request with a range. */
  onRange?(seen: Seen): string | Buffer | undefined;
};

/** Serves the content, and cuts connections. */
async function serve({ cutAfter, headers = 'etag: "v1"\r\n', version = () => 1, onRange }: Server): Promise<string> {
  let requests = 0;
  origin = await openOrigin((seen, socket) => {
    const request = ++requests;
    const from = rangeOf(seen);
    const special = from === null ? undefined : onRange?.(seen);
    if (special !== undefined) return special;
    const content = contentOf(version(request));
    const body = content.subarray(from ?? 0);
    const range = from === null ? '' : `content-range: bytes ${from}-${SIZE - 1}/${SIZE}\r\n`;
    socket.write(`HTTP/1.1 ${from === null ? '200 OK' : '206 Partial'}\r\ncontent-length: ${body.length}\r\n${headers}${range}\r\n`);
    const cut = cutAfter(request);
    if (cut === undefined) socket.write(body);
    else socket.end(body.subarray(0, cut));
    return null;
  });
  return `http://127.0.0.1:${origin.port}/file`;
}

/** The attempts of one job, as the engine would run them: each with a lease of its own, and the checkpoint of the last. */
function attemptsAt(url: string) {
  const task = taskFor(url);
  let state: unknown = null;
  let attempt = 0;
  const lines: IngestLogLine[] = [];
  const gate = new OpenGate();
  return {
    task,
    lines,
    gate,
    hasSaved: () => state !== null,
    run: (leaseToken = 100 + attempt) =>
      stage.run(task, {
        lines,
        gate,
        context: {
          jobId: `resumed-${task.resourceId}`,
          attempt: ++attempt,
          leaseToken,
          checkpoint: async (saved) => {
            state = JSON.parse(JSON.stringify(saved));
          },
          lastCheckpoint: async <T>() => state as T,
        },
      }),
  };
}

test('the next attempt continues where a cut download ended', async () => {
  const { task, run, lines } = attemptsAt(await serve({ cutAfter: (n) => (n === 1 ? 4_000_000 : undefined) }));
  expect(wordOf(await run())).toBe('temporary TRUNCATED');
  expect(await stage.objectOf(task)).toBeNull();
  expect(await run()).toMatchObject({ kind: 'completed', result: { bytes: SIZE, sha256: sha256(CONTENT), httpStatus: 206 } });
  expect((await stage.objectOf(task))?.equals(CONTENT)).toBe(true);
  const [, second] = origin!.seen();
  expect(rangeOf(second!)).toBeGreaterThan(0);
  expect(ifRangeOf(second!)).toBe('"v1"');
  expect(lines.map(({ event }) => event)).toEqual([
    'resource.started',
    'resource.attempt_failed',
    'resource.retried',
    'resource.completed',
  ]);
});

test('it continues again and again, also by the date of the last change', async () => {
  const headers = 'last-modified: Wed, 21 Oct 2015 07:28:00 GMT\r\netag: W/"weak"\r\n';
  const { task, run } = attemptsAt(await serve({ headers, cutAfter: (n) => (n < 4 ? 1_800_000 : undefined) }));
  for (let n = 0; n < 3; n++) expect(wordOf(await run())).toBe('temporary TRUNCATED');
  expect(wordOf(await run())).toBe(`stored ${SIZE}`);
  expect((await stage.objectOf(task))?.equals(CONTENT)).toBe(true);
  expect(ifRangeOf(origin!.seen().at(-1)!)).toBe('Wed, 21 Oct 2015 07:28:00 GMT');
});

test.each<[string, Partial<Server>]>([
  ['the server has no validator', { headers: '' }],
  ['the server has a weak validator only', { headers: 'etag: W/"v1"\r\n' }],
])('it starts anew if %s', async (_, server) => {
  const { task, run } = attemptsAt(await serve({ cutAfter: (n) => (n === 1 ? 4_000_000 : undefined), ...server }));
  await run();
  expect(wordOf(await run())).toBe(`stored ${SIZE}`);
  expect(origin!.seen().map(rangeOf)).toEqual([null, null]);
  expect((await stage.objectOf(task))?.equals(CONTENT)).toBe(true);
});

const whole = (version: number): Buffer => {
  const content = contentOf(version);
  return Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${SIZE}\r\netag: "v${version}"\r\n\r\n`), content]);
};

test.each<[string, NonNullable<Server['onRange']>]>([
  ['sends the whole content of a new version', () => whole(2)],
  ['says that the range does not exist', () => 'HTTP/1.1 416 No\r\ncontent-length: 0\r\n\r\n'],
  [
    'sends another range',
    () => `HTTP/1.1 206 Partial\r\ncontent-range: bytes 5-${SIZE - 1}/${SIZE}\r\ncontent-length: 0\r\netag: "v1"\r\n\r\n`,
  ],
  [
    'sends the right range of another version',
    (seen) =>
      `HTTP/1.1 206 Partial\r\ncontent-range: bytes ${rangeOf(seen)}-${SIZE - 1}/${SIZE}\r\netag: "v2"\r\ncontent-length: 0\r\n\r\n`,
  ],
  ['sends a part without saying which', () => 'HTTP/1.1 206 Partial\r\ncontent-length: 3\r\netag: "v1"\r\n\r\nabc'],
])('it never mixes two versions: the server %s', async (_, onRange) => {
  const { task, run } = attemptsAt(
    await serve({ onRange, version: (n) => (n === 1 ? 1 : 2), cutAfter: (n) => (n === 1 ? 4_000_000 : undefined) }),
  );
  expect(wordOf(await run())).toBe('temporary TRUNCATED');
  expect(wordOf(await run())).toBe(`stored ${SIZE}`);
  expect((await stage.objectOf(task))?.equals(contentOf(2))).toBe(true);
});

test('a range that ends too early is truncated, and continued', async () => {
  const short = (seen: Seen): Buffer | undefined => {
    const from = rangeOf(seen) as number;
    if (from >= 5_000_000) return undefined;
    const head = `HTTP/1.1 206 Partial\r\ncontent-range: bytes ${from}-4999999/${SIZE}\r\netag: "v1"\r\ncontent-length: ${5_000_000 - from}\r\n\r\n`;
    return Buffer.concat([Buffer.from(head), CONTENT.subarray(from, 5_000_000)]);
  };
  const { task, run } = attemptsAt(await serve({ onRange: short, cutAfter: (n) => (n === 1 ? 4_000_000 : undefined) }));
  expect([wordOf(await run()), wordOf(await run())]).toEqual(['temporary TRUNCATED', 'temporary TRUNCATED']);
  expect(wordOf(await run())).toBe(`stored ${SIZE}`);
  expect((await stage.objectOf(task))?.equals(CONTENT)).toBe(true);
});

test('an attempt that was thought dead cannot add to what a later one continues', async () => {
  let release = () => {};
  const url = await serve({ cutAfter: () => undefined });
  await origin!.close();
  const content = CONTENT;
  let requests = 0;
  origin = await openOrigin((seen, socket) => {
    const from = rangeOf(seen) ?? 0;
    const status = from === 0 ? '200 OK' : '206 Partial';
    socket.write(
      `HTTP/1.1 ${status}\r\netag: "v1"\r\ncontent-length: ${SIZE - from}\r\ncontent-range: bytes ${from}-${SIZE - 1}/${SIZE}\r\n\r\n`,
    );
    if (++requests > 1) return content.subarray(from);
    socket.write(content.subarray(0, 4_000_000));
    release = () => socket.write(content.subarray(4_000_000));
    return null;
  });
  const { task, run, hasSaved } = attemptsAt(url.replace(/:\d+/, `:${origin.port}`));
  const zombie = run();
  await until('the first attempt has saved where it is', hasSaved);
  // It hangs. The second one takes over.
  while ((await stage.store.head(task.storage)) === null) {
    const second = await run();
    if (second.kind === 'completed') break;
  }
  release();
  expect(wordOf(await zombie)).not.toBe('permanent CHECKSUM_MISMATCH');
  expect((await stage.objectOf(task))?.equals(content)).toBe(true);
});

test('an attempt after one whose outcome was lost asks whether its object is still current', async () => {
  origin = await openOrigin(({ headers }) =>
    /^if-none-match: "v1"/im.test(headers)
      ? 'HTTP/1.1 304 Not Modified\r\netag: "v1"\r\n\r\n'
      : 'HTTP/1.1 200 OK\r\netag: "v1"\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok',
  );
  const { run, task } = attemptsAt(`http://127.0.0.1:${origin.port}/file`);
  const first = await run();
  const second = await run();
  expect(second).toMatchObject({ kind: 'completed', result: { httpStatus: 304, bytes: 2, contentType: 'text/plain' } });
  expect(second.kind === 'completed' && first.kind === 'completed' && second.result.sha256 === first.result.sha256).toBe(true);
  expect((await stage.objectOf(task))?.toString()).toBe('ok');
});
