import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PUBLIC_ONLY } from '../../src/core/address-policy.ts';
import { createEgress, type Egress } from '../../src/egress/egress.ts';
import type { ProxyAddress } from '../../src/egress/proxy.ts';
import { createResolver } from '../../src/egress/resolver.ts';
import { type Canaries, openCanaries } from './canaries.ts';
import { type DnsServer, openDnsServer } from './dns-server.ts';
import { HOSTILE, type HostileUrl } from './hostile-urls.ts';
import { answerWith, type Origin, openOrigin } from './origin.ts';
import { openHttpProxy, openSocksProxy, type TestProxy } from './proxies.ts';

let canaries: Canaries;
let dns: DnsServer;
let origin: Origin;
let proxies: Record<ProxyAddress['kind'], TestProxy>;
let egress: Egress;
let dialled: string[] = [];

const LIMITS = { timeoutMs: 60_000, maxBodyBytes: 1_000, overflow: 'truncate' } as const;
const BY_NAME = new Map(
  HOSTILE.flatMap(({ spelling, dns }) => (dns === undefined ? [] : [[new URL(spell(spelling, 1)).hostname, dns] as const])),
);

function spell(spelling: string, port = canaries.port): string {
  return spelling.replaceAll('{port}', String(port));
}

beforeAll(async () => {
  canaries = await openCanaries();
  // Names of the public stand for a real server; nothing may ever be dialled there either.
  dns = await openDnsServer((name) => BY_NAME.get(name) ?? (name === 'public.test' ? ['93.184.216.34'] : []));
  origin = await openOrigin(({ path }) => {
    const index = /^\/to\/(\d+)$/.exec(path)?.[1];
    if (index === undefined) return answerWith(404);
    // The header goes out as bytes, so that nothing on this side repairs the spelling.
    return answerWith(302, { location: spell(HOSTILE[Number(index)]!.spelling) });
  });
  proxies = { http: await openHttpProxy(), socks5: await openSocksProxy() };
  egress = createEgress({
    policy: { ...PUBLIC_ONLY, targets: [`127.0.0.1:${origin.port}`] },
    resolver: createResolver({ dnsTimeoutMs: 10_000, servers: [dns.address] }),
    connectTimeoutMs: 20_000,
    dnsTimeoutMs: 10_000,
    userAgent: 'test',
    onDial: ({ address, port, via }) => dialled.push(`${via} ${address}:${port}`),
  });
});

afterAll(async () => {
  await Promise.all([canaries, dns, origin, proxies.http, proxies.socks5].map((server) => server.close()));
});

function proxy(kind: ProxyAddress['kind']): ProxyAddress {
  return { kind, host: '127.0.0.1', port: proxies[kind].port, username: null, password: null };
}

function judge(answer: Awaited<ReturnType<Egress['fetch']>>): string {
  if (answer.kind === 'answered') return `answered ${answer.status} by ${answer.address}`;
  return answer.kind === 'failed' ? `failed ${answer.code}` : 'refused';
}

const direct = () => 'refused';

/** What a redirect to the spelling ends in. Two kinds of text are no address at all in a Location header. */
function afterRedirect({ asLocation, spelling }: HostileUrl): string {
  if (asLocation === 'unsendable') return 'failed PROTOCOL';
  if (asLocation === 'stays') return `answered ${spelling === '' ? 302 : 404} by 127.0.0.1`;
  return 'refused';
}

type Use = {
  readonly use: string;
  readonly ids: string;
  readonly expected: (hostile: HostileUrl) => string;
  readonly mayDial: () => readonly string[];
  readonly call: (url: string, index: number) => Promise<string>;
};

const redirectTo = (index: number, via?: ProxyAddress) =>
  egress.fetch({ url: `http://127.0.0.1:${origin.port}/to/${index}`, redirects: 3, ...LIMITS, proxy: via });
const deliver = (url: string, via?: ProxyAddress) => egress.fetch({ url, method: 'POST', body: Buffer.from('{}'), ...LIMITS, proxy: via });

const USES: readonly Use[] = [
  {
    use: 'as the address of a registration',
    ids: '[FR-14.18] [FR-14.54]',
    expected: direct,
    mayDial: () => [],
    call: async (url) => ((await egress.check(url)) === null ? 'accepted' : 'refused'),
  },
  {
    use: 'as a callback',
    ids: '[FR-14.55]',
    expected: direct,
    mayDial: () => [],
    call: async (url) => judge(await deliver(url)),
  },
  {
    use: 'as the target of a redirect',
    ids: '[FR-14.55]',
    expected: afterRedirect,
    mayDial: () => [`direct 127.0.0.1:${origin.port}`],
    call: async (_, index) => judge(await redirectTo(index)),
  },
  {
    use: 'as a target behind an HTTP proxy',
    ids: '[FR-14.55]',
    expected: direct,
    mayDial: () => [],
    call: async (url) => judge(await deliver(url, proxy('http'))),
  },
  {
    use: 'as a target behind a SOCKS5 proxy',
    ids: '[FR-14.55]',
    expected: direct,
    mayDial: () => [],
    call: async (url) => judge(await deliver(url, proxy('socks5'))),
  },
  {
    use: 'as the target of a redirect behind a proxy',
    ids: '[FR-14.55]',
    expected: afterRedirect,
    mayDial: () => [`http 127.0.0.1:${proxies.http.port}`],
    call: async (_, index) => judge(await redirectTo(index, proxy('http'))),
  },
];

test('the table is long and has no spelling twice', () => {
  const spellings = HOSTILE.map(({ spelling }) => spelling);
  expect(spellings.length).toBeGreaterThanOrEqual(150);
  expect(spellings.filter((spelling, index) => spellings.indexOf(spelling) !== index)).toEqual([]);
});

describe.each(USES)('$use', ({ ids, expected, mayDial, call }) => {
  test(`no hostile address is called ${ids}`, async () => {
    dialled = [];
    const offenders: string[] = [];
    for (const [index, hostile] of HOSTILE.entries()) {
      const outcome = await call(spell(hostile.spelling), index);
      if (outcome !== expected(hostile)) offenders.push(`${hostile.why}: ${JSON.stringify(hostile.spelling)} ${outcome}`);
    }
    expect(offenders).toEqual([]);
    expect([...new Set(dialled)]).toEqual(mayDial());
    const asked = [...proxies.http.asked(), ...proxies.socks5.asked()].map(({ host, port }) => `${host}:${port}`);
    expect([...new Set(asked)].filter((place) => place !== `127.0.0.1:${origin.port}`)).toEqual([]);
    expect(canaries.accepted()).toBe(0);
  });
});

test('the canaries would have been heard', async () => {
  for (const host of ['127.0.0.1', '127.9.9.9', '0.0.0.0', '::1']) {
    const before = canaries.accepted();
    const socket = connect({ host, port: canaries.port });
    await new Promise((resolve, reject) => socket.once('close', resolve).once('error', reject).resume());
    expect(canaries.accepted()).toBe(before + 1);
  }
});
