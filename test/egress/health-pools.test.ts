import { expect, test } from 'vitest';
import { HealthPools } from '../../src/egress/health-pools.ts';

function poolsOf(pools: Record<string, readonly string[]>) {
  let now = 1_000;
  const made = new HealthPools({ pools: new Map(Object.entries(pools)), nowMs: () => now });
  return { pools: made, pass: (ms: number) => (now += ms) };
}

const wordsOf = (pools: HealthPools, names: readonly string[]) =>
  pools
    .routesOf(names)
    .map((found) => (found.kind === 'usable' ? found.routes.map(({ address }) => address).join(' ') : `${found.pool} is ${found.why}`));

function fail(pools: HealthPools, name: string, times: number): void {
  for (let n = 0; n < times; n++) {
    const [found] = pools.routesOf([name]);
    if (found?.kind === 'usable') found.routes[0]?.report(false);
  }
}

const ONE = { main: ['http://user:secret@10.1.1.1:3128'], spare: ['socks5://10.2.2.2'] };

test('pools come in the order of their names, and a pool that is not defined is passed over', () => {
  const { pools } = poolsOf(ONE);
  expect(wordsOf(pools, ['main', 'spare', 'main'])).toEqual(['http://10.1.1.1:3128', 'socks5://10.2.2.2:1080']);
  expect(wordsOf(pools, ['nowhere', '__proto__', 'spare'])).toEqual([
    'nowhere is undefined',
    '__proto__ is undefined',
    'socks5://10.2.2.2:1080',
  ]);
});

test('credentials are in no address, report or error', () => {
  const { pools } = poolsOf(ONE);
  expect(JSON.stringify([pools.takeReports(), [...pools.addresses], wordsOf(pools, ['main'])])).not.toMatch(/user|secret/);
  for (const url of ['http://user:secret@', 'ftp://user:secret@host', 'user:secret', 'https://user:secret@h/path']) {
    expect(() => poolsOf({ main: [url] })).toThrow(/^URL 1 of the proxy pool "main" is not valid/);
    expect(() => poolsOf({ main: [url] })).not.toThrow(/secret/);
  }
});

test('an address that fails three times is ejected, longer each time, and returns within a minute', () => {
  const { pools, pass } = poolsOf(ONE);
  fail(pools, 'main', 2);
  expect(wordsOf(pools, ['main', 'spare'])[0]).toBe('http://10.1.1.1:3128');
  fail(pools, 'main', 1);
  expect(wordsOf(pools, ['main', 'spare'])[0]).toBe('main is ejected');
  const times: number[] = [];
  for (let n = 0; n < 8; n++) {
    let waited = 0;
    for (; wordsOf(pools, ['main', 'spare'])[0] === 'main is ejected'; waited += 500) pass(500);
    times.push(waited);
    fail(pools, 'main', 1);
  }
  expect(times).toEqual([2_000, 4_000, 8_000, 16_000, 32_000, 45_000, 45_000, 45_000]);
});

test('an address that works again starts anew', () => {
  const { pools, pass } = poolsOf(ONE);
  fail(pools, 'main', 3);
  pass(2_000);
  const [found] = pools.routesOf(['main', 'spare']);
  if (found?.kind === 'usable') found.routes[0]?.report(true);
  fail(pools, 'main', 2);
  expect(wordsOf(pools, ['main', 'spare'])[0]).toBe('http://10.1.1.1:3128');
});

test('requests that were in flight when an address was ejected do not extend the time', () => {
  const { pools, pass } = poolsOf(ONE);
  const found = pools.routesOf(['main', 'spare'])[0];
  for (let n = 0; n < 20; n++) if (found?.kind === 'usable') found.routes[0]?.report(false);
  pass(2_000);
  expect(wordsOf(pools, ['main', 'spare'])[0]).toBe('http://10.1.1.1:3128');
});

test('if everything is ejected, the pools are used nevertheless, but paused ones are not', () => {
  const { pools } = poolsOf(ONE);
  fail(pools, 'main', 3);
  fail(pools, 'spare', 3);
  expect(wordsOf(pools, ['main', 'spare'])).toEqual(['http://10.1.1.1:3128', 'socks5://10.2.2.2:1080']);
  pools.setPaused(new Set(['main']));
  expect(wordsOf(pools, ['main', 'spare'])).toEqual(['main is paused', 'socks5://10.2.2.2:1080']);
  pools.setPaused(new Set(['main', 'spare']));
  expect(wordsOf(pools, ['main', 'spare'])).toEqual(['main is paused', 'spare is paused']);
});

test('the addresses of a pool take turns, and one that fails comes last', () => {
  const { pools } = poolsOf({ main: ['http://10.1.1.1:1', 'http://10.1.1.2:1'] });
  const first = () => wordsOf(pools, ['main'])[0]?.split(' ')[0];
  expect(new Set([first(), first()])).toEqual(new Set(['http://10.1.1.1:1', 'http://10.1.1.2:1']));
  const found = pools.routesOf(['main'])[0];
  const bad = found?.kind === 'usable' ? found.routes.find(({ address }) => address === 'http://10.1.1.1:1') : undefined;
  for (let n = 0; n < 2; n++) bad?.report(false);
  expect([first(), first(), first()]).toEqual(Array(3).fill('http://10.1.1.2:1'));
});

test('reports contain what is new since the last one', () => {
  const { pools } = poolsOf({ main: ['http://10.1.1.1:1'] });
  expect(pools.takeReports()).toEqual([
    { pool: 'main', address: 'http://10.1.1.1:1', score: 1, ejectedMs: null, successes: 0, failures: 0 },
  ]);
  expect(pools.takeReports()).toEqual([]);
  fail(pools, 'main', 3);
  expect(pools.takeReports()).toEqual([
    { pool: 'main', address: 'http://10.1.1.1:1', score: expect.closeTo(0.512), ejectedMs: 2_000, successes: 0, failures: 3 },
  ]);
});
