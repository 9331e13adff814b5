import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PUBLIC_ONLY, specialRangeOf } from '../../src/core/address-policy.ts';
import { parseIp, parseRange } from '../../src/core/ip-address.ts';
import { createEgress } from '../../src/egress/egress.ts';
import { parseProxy } from '../../src/egress/proxy.ts';
import { namesOf, request } from './local-egress.ts';
import { openHttpProxy } from './proxies.ts';

const SPECIAL_V4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.168.0.0/16', '198.18.0.0/15', '224.0.0.0/4', '240.0.0.0/4'],
].map((text) => parseRange(text)!);

const specialV4 = fc
  .constantFrom(...SPECIAL_V4)
  .chain((range) => fc.bigInt({ min: range.low, max: range.high }))
  .map(Number);

function octetsOf(value: number): number[] {
  return [value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff];
}

const SPELLINGS: readonly ((value: number) => string)[] = [
  (value) => octetsOf(value).join('.'),
  (value) => String(value),
  (value) => `0x${value.toString(16)}`,
  (value) => `0${value.toString(8)}`,
  (value) =>
    octetsOf(value)
      .map((octet) => `0${octet.toString(8)}`)
      .join('.'),
  (value) => `${octetsOf(value)[0]}.${value & 0xffffff}`,
  (value) => [...octetsOf(value).join('.')].map((c) => `%${c.charCodeAt(0).toString(16)}`).join(''),
  (value) => `[::ffff:${octetsOf(value).join('.')}]`,
  (value) => `[64:ff9b::${octetsOf(value).join('.')}]`,
  (value) => `[2002:${(value >>> 16).toString(16)}:${(value & 0xffff).toString(16)}::1]`,
];

const dialled: string[] = [];

function guarded(names: Readonly<Record<string, readonly string[]>>) {
  return createEgress({
    policy: PUBLIC_ONLY,
    resolver: namesOf(names),
    connectTimeoutMs: 1_000,
    dnsTimeoutMs: 1_000,
    userAgent: 'test',
    onDial: ({ address }) => dialled.push(address),
  });
}

test('any special IPv4 address in any spelling is refused before it is dialled [FR-14.55]', async () => {
  const egress = guarded({});
  await fc.assert(
    fc.asyncProperty(specialV4, fc.constantFrom(...SPELLINGS), async (value, spell) => {
      expect(await egress.fetch(request(`http://${spell(value)}/`))).toMatchObject({
        kind: 'refused',
        code: 'ADDRESS',
      });
    }),
    { numRuns: 1_000 },
  );
  expect(dialled).toEqual([]);
});

test('a name is refused if and only if one of its addresses is special', async () => {
  const address = fc.oneof(fc.ipV4(), fc.ipV6());
  await fc.assert(
    fc.asyncProperty(fc.array(address, { minLength: 1, maxLength: 5 }), async (addresses) => {
      const isBad = addresses.some((text) => specialRangeOf(parseIp(text)!) !== null);
      const refusal = await guarded({ 'some.test': addresses }).check('http://some.test/');
      expect(refusal?.code ?? null).toBe(isBad ? 'ADDRESS' : null);
    }),
    { numRuns: 500 },
  );
});

test('no text makes the room throw', async () => {
  // Some texts spell a public address: the proxy takes those calls, so that none leaves this machine.
  const { port, close } = await openHttpProxy({ answer: Buffer.from('HTTP/1.1 403 Forbidden\r\n\r\n') });
  const proxy = parseProxy(`http://127.0.0.1:${port}`);
  const egress = guarded({});
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string().map((rest) => `http://${rest}`),
  );
  await fc.assert(
    fc.asyncProperty(text, async (url) => {
      const answer = await egress.fetch(request(url, { proxy }));
      expect(['refused', 'failed']).toContain(answer.kind);
    }),
    { numRuns: 1_000, examples: [['http://1.0'], ['http://__proto__/']] },
  );
  expect(new Set(dialled)).toEqual(new Set(['127.0.0.1']));
  await close();
});
