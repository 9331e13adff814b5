import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PUBLIC_ONLY } from '../../src/core/address-policy.ts';
import { createEgress, type Egress } from '../../src/egress/egress.ts';
import { HealthPools } from '../../src/egress/health-pools.ts';
import { createResolver } from '../../src/egress/resolver.ts';
import { type Canaries, openCanaries } from '../egress/canaries.ts';
import { type DnsServer, openDnsServer } from '../egress/dns-server.ts';
import { HOSTILE } from '../egress/hostile-urls.ts';
import { answerWith, type Origin, openOrigin } from '../egress/origin.ts';
import { openHttpProxy, type TestProxy } from '../egress/proxies.ts';
import { taskFor, useStage, wordOf } from './fetch-fixture.ts';

const stage = useStage();
let canaries: Canaries;
let dns: DnsServer;
let origin: Origin;
let proxy: TestProxy;
let egress: Egress;
let dialled: string[] = [];

const spell = (spelling: string, port = canaries.port): string => spelling.replaceAll('{port}', String(port));
const BY_NAME = new Map(
  HOSTILE.flatMap(({ spelling, dns: answers }) =>
    answers === undefined ? [] : [[new URL(spell(spelling, 1)).hostname, answers] as const],
  ),
);

beforeAll(async () => {
  canaries = await openCanaries();
  dns = await openDnsServer((name) => BY_NAME.get(name) ?? []);
  origin = await openOrigin(({ path }) => {
    const index = /^\/to\/(\d+)$/.exec(path)?.[1];
    return index === undefined ? answerWith(404) : answerWith(302, { location: spell(HOSTILE[Number(index)]!.spelling) });
  });
  proxy = await openHttpProxy();
  egress = createEgress({
    policy: { ...PUBLIC_ONLY, targets: [`127.0.0.1:${origin.port}`] },
    resolver: createResolver({ dnsTimeoutMs: 10_000, servers: [dns.address] }),
    connectTimeoutMs: 20_000,
    dnsTimeoutMs: 10_000,
    userAgent: 'test',
    onDial: ({ address, port }) => dialled.push(`${address}:${port}`),
  });
});
afterAll(() => {
  egress.close();
  return Promise.all([canaries, dns, origin, proxy].map((server) => server.close()));
});

const REFUSED = ['permanent ADDRESS_REFUSED', 'permanent INVALID_URL', 'permanent UNSUPPORTED_SCHEME'];

describe.each([
  { use: 'as the URL of a resource', proxies: [], isRedirect: false },
  { use: 'as the target of a redirect', proxies: [], isRedirect: true },
  { use: 'as the URL of a resource behind a proxy', proxies: ['main'], isRedirect: false },
  { use: 'as the target of a redirect behind a proxy', proxies: ['main'], isRedirect: true },
])('$use', ({ proxies, isRedirect }) => {
  test('no hostile address is called, and the failure is permanent [C87]', async () => {
    dialled = [];
    const pools = new HealthPools({ pools: new Map([['main', [`http://127.0.0.1:${proxy.port}`]]]) });
    const mayDial = new Set(isRedirect ? [`127.0.0.1:${proxies.length > 0 ? proxy.port : origin.port}`] : []);
    const offenders: string[] = [];
    for (const [index, { spelling, why, asLocation }] of HOSTILE.entries()) {
      const url = isRedirect ? `http://127.0.0.1:${origin.port}/to/${index}` : spell(spelling);
      const end = wordOf(await stage.run(taskFor(url, { proxies }), { egress, pools }));
      const isFine = isRedirect && asLocation !== undefined ? !end.startsWith('stored') : REFUSED.includes(end);
      if (!isFine) offenders.push(`${why}: ${JSON.stringify(spelling)} ended as ${end}`);
    }
    expect(offenders).toEqual([]);
    expect(dialled.filter((address) => !mayDial.has(address))).toEqual([]);
    expect(canaries.accepted()).toBe(0);
  });
});
