import { afterAll, beforeAll, expect, test } from 'vitest';
import { PUBLIC_ONLY, specialRangeOf } from '../../src/core/address-policy.ts';
import { parseIp } from '../../src/core/ip-address.ts';
import { createEgress, type EgressOptions } from '../../src/egress/egress.ts';
import { createResolver } from '../../src/egress/resolver.ts';
import { type Canaries, openCanaries } from './canaries.ts';
import { type DnsAnswers, type DnsServer, openDnsServer } from './dns-server.ts';

const GOOD = '93.184.216.34';
const GOOD_6 = '2606:2800:220:1::1';
const TRIES = 1_000;
const BATCH = 50;

let canaries: Canaries;
let dns: DnsServer;

/** The names say how the zone lies; each try of a name that ends in its number has the name to itself. */
const zone: DnsAnswers = (name, type, nth) => {
  const [first = ''] = name.split('.');
  if (first.startsWith('turns')) return nth % 2 === 0 ? [GOOD, GOOD_6] : ['127.0.0.1', '::1'];
  if (first.startsWith('later')) return nth === 0 ? [GOOD] : ['127.0.0.1'];
  if (first.startsWith('other-family')) return type === 'A' ? [GOOD] : ['::1'];
  return Number(/\d+$/.exec(first)?.[0]) % 2 === 0 ? [GOOD] : ['127.0.0.1'];
};

beforeAll(async () => {
  canaries = await openCanaries();
  dns = await openDnsServer(zone);
});

afterAll(async () => {
  await Promise.all([canaries.close(), dns.close()]);
});

type Tries = { outcomes: Map<string, number>; dialled: Set<string>; queries: number };

/** A public answer is given up at the moment of dialling: that costs no time and needs no network. */
async function tryAll(nameOf: (n: number) => string): Promise<Tries> {
  const outcomes = new Map<string, number>();
  const dialled = new Set<string>();
  const before = dns.queries().length;
  // So long that the DNS client never asks twice: the questions are counted.
  const dnsTimeoutMs = 60_000;
  const resolver = createResolver({ dnsTimeoutMs, servers: [dns.address] });
  for (let n = 0; n < TRIES; n += BATCH) {
    await Promise.all(
      Array.from({ length: BATCH }, async (_, index) => {
        const caller = new AbortController();
        const onDial: EgressOptions['onDial'] = ({ address }) => {
          dialled.add(address);
          caller.abort();
        };
        const policy = PUBLIC_ONLY;
        const limits = { connectTimeoutMs: 5_000, dnsTimeoutMs, userAgent: 'test' };
        const egress = createEgress({ policy, resolver, ...limits, onDial });
        const url = `http://${nameOf(n + index)}.rebinding.test:${canaries.port}/`;
        const bounds = { timeoutMs: 60_000, maxBodyBytes: 100, overflow: 'fail' } as const;
        const answer = await egress.fetch({ url, ...bounds, signal: caller.signal });
        const outcome = answer.kind === 'answered' ? 'answered' : answer.code;
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }),
    );
  }
  return { outcomes, dialled, queries: dns.queries().length - before };
}

function count({ outcomes }: Tries): number {
  return [...outcomes.values()].reduce((sum, n) => sum + n, 0);
}

test.each([
  ['whose answers take turns', () => 'turns'],
  ['that lies from the second question on', (n: number) => `later${n}`],
  ['that lies every second time', (n: number) => `alternates${n}`],
  ['that lies for one family', () => 'other-family'],
])('a name %s never leads inside in 1000 tries [FR-14.55]', async (_, nameOf) => {
  const tries = await tryAll(nameOf);
  expect(count(tries)).toBe(TRIES);
  expect([...tries.outcomes.keys()].filter((outcome) => outcome !== 'ABORTED' && outcome !== 'ADDRESS')).toEqual([]);
  expect([...tries.dialled].filter((address) => specialRangeOf(parseIp(address)!) !== null)).toEqual([]);
  // One question for each family and none after it: there is no second answer that could differ.
  expect(tries.queries).toBe(2 * TRIES);
  expect(canaries.accepted()).toBe(0);
});

test('both good and bad answers were met', async () => {
  const tries = await tryAll((n) => `both${n}`);
  expect(tries.outcomes).toEqual(
    new Map([
      ['ABORTED', TRIES / 2],
      ['ADDRESS', TRIES / 2],
    ]),
  );
});
