import { afterAll, beforeAll, expect, test } from 'vitest';
import type { FetchTask } from '../../src/core/ingest/fetch-task.ts';
import { type Origin, openOrigin } from '../egress/origin.ts';
import { taskFor, useStage, wordOf } from './fetch-fixture.ts';
import { bodyOf, serveResources, sha256 } from './fetch-origin.ts';

const stage = useStage();
let origin: Origin;
let elsewhere: Origin;

beforeAll(async () => {
  const serve = serveResources(() => elsewhere.port);
  origin = await openOrigin(serve);
  elsewhere = await openOrigin(serve);
});
afterAll(() => Promise.all([origin.close(), elsewhere.close()]));

const at = (path: string, rest: Partial<FetchTask> = {}): FetchTask => taskFor(`http://127.0.0.1:${origin.port}${path}`, rest);
const hinted = (hint: string): Partial<FetchTask> => ({ tags: [['checksum_hint', hint]] });
/** Only servers that stop get a short time. A busy machine must not make others look like them. */
const limitsOf = (expected: string) => ({ maxBytes: 1_000_000, idleTimeoutMs: expected.endsWith('IDLE_TIMEOUT') ? 300 : 30_000 });

/** A generator with a seed, so that a failing mix can be repeated. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

/** What each kind of resource must end as. */
const TABLE: readonly (readonly [path: string, end: string, rest?: Partial<FetchTask>])[] = [
  ...[0, 1, 2, 1_023, 65_536, 300_000, 1_000_000].map((size) => [`/size/${size}`, `stored ${size}`] as const),
  ['/size/1000001', 'permanent TOO_LARGE'],
  ['/chunked/0', 'stored 0'],
  ['/chunked/5000', 'stored 5000'],
  ...[0, 1, 3].map((hops) => [`/hop/${hops}`, 'stored 77'] as const),
  ['/hop/4', 'stored 77'],
  ['/hop/5', 'permanent TOO_MANY_REDIRECTS'],
  ['/away', 'stored 5'],
  ...[400, 401, 403, 404, 410, 418, 451].map((status) => [`/status/${status}`, `permanent HTTP_${status}`] as const),
  ...[408, 425, 429, 500, 502, 503, 504].map((status) => [`/status/${status}`, `temporary HTTP_${status}`] as const),
  ['/status/304', 'permanent HTTP_304'],
  ['/drip/40', 'stored 40'],
  ['/cut', 'temporary TRUNCATED'],
  ['/stop', 'temporary IDLE_TIMEOUT'],
  ['/silent', 'temporary IDLE_TIMEOUT'],
  ['/longer', 'stored 4'],
  ['/announced', 'permanent TOO_LARGE'],
  ['/endless', 'permanent TOO_LARGE'],
  ['/gzip', 'stored 15'],
  ['/size/64', 'stored 64', hinted(`sha256:${sha256(bodyOf('/size/64'))}`)],
  ['/size/64', 'stored 64', hinted(`sha256:${sha256(bodyOf('/size/64')).toUpperCase()}`)],
  ['/size/64', 'permanent CHECKSUM_MISMATCH', hinted(`sha256:${'0'.repeat(64)}`)],
  ['/size/64', 'stored 64', hinted('md5:abc')],
  [
    '/size/64',
    'stored 64',
    {
      tags: [
        ['__proto__', 'a'],
        ['constructor', 'b'],
      ],
      headers: [['__proto__', 'x']],
    },
  ],
];

test('a mix of good and bad resources ends as the table says [FB-1.26] [FB-2.14]', async () => {
  const random = randomFrom(20_261_117);
  const mix = Array.from({ length: 6 }, () => TABLE)
    .flat()
    .toSorted(() => random() - 0.5);
  const wrong: string[] = [];
  const one = async ([path, expected, rest]: (typeof TABLE)[number]) => {
    const task = at(path, rest);
    const end = await stage.run(task, { limits: limitsOf(expected) });
    if (wordOf(end) !== expected) wrong.push(`${path}: ${wordOf(end)} and not ${expected}`);
    const object = await stage.objectOf(task);
    // Nothing that failed is visible, not even a part.
    if (expected.startsWith('stored') !== (object !== null))
      wrong.push(`${path}: the object is ${object === null ? 'missing' : 'visible'}`);
    if (object !== null && end.kind === 'completed' && sha256(object) !== end.result.sha256) wrong.push(`${path}: another checksum`);
    if (object !== null && path.startsWith('/size/') && !object.equals(bodyOf(path))) wrong.push(`${path}: other bytes`);
  };
  const lanes = Array.from({ length: 16 }, async () => {
    for (let next = mix.pop(); next !== undefined; next = mix.pop()) await one(next);
  });
  await Promise.all(lanes);
  expect(wrong).toEqual([]);
});
