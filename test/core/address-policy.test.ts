import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type AddressPolicy, PUBLIC_ONLY, refusalOf, specialRangeOf } from '../../src/core/address-policy.ts';
import { type IpAddress, type IpRange, parseIp, parseRange } from '../../src/core/ip-address.ts';

const V4_RANGES = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.31.196.0/24', '192.52.193.0/24', '192.88.99.0/24', '192.168.0.0/16', '192.175.48.0/24'],
  ...['198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4', '240.0.0.0/4'],
];
const V6_RANGES = [
  ...['::/128', '::1/128', '::ffff:0:0/96', '::/96', '64:ff9b::/96', '64:ff9b:1::/48', '100::/64', '2001::/23'],
  ...['2001:db8::/32', '2002::/16', '2620:4f:8000::/48', '3fff::/20', '5f00::/16', 'fc00::/7', 'fe80::/10', 'fec0::/10'],
  'ff00::/8',
];

function at(range: IpRange, value: bigint): IpAddress {
  return { version: range.version, value };
}

describe('special addresses', () => {
  test.each([...V4_RANGES, ...V6_RANGES])('all of %s is special', (text) => {
    const range = parseRange(text)!;
    fc.assert(
      fc.property(fc.bigInt({ min: range.low, max: range.high }), (value) => {
        expect(specialRangeOf(at(range, value))).not.toBeNull();
      }),
      { examples: [[range.low], [range.high]] },
    );
  });

  test.each([
    ...['1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255', '128.0.0.0'],
    ...['169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0', '192.0.1.0', '192.0.3.0', '192.167.255.255'],
    ...['192.169.0.0', '198.17.255.255', '198.20.0.0', '203.0.112.255', '203.0.114.0', '223.255.255.255', '168.63.129.15'],
    ...['2000::1', '2001:200::1', '2001:4860:4860::8888', '2003::1', '2606:4700::1111', '2a00:1450::1', '3ffe::1', '3fff:1000::'],
  ])('%s is global', (text) => {
    expect(specialRangeOf(parseIp(text)!)).toBeNull();
  });

  test.each([
    ['127.0.0.1', 'loopback'],
    ['100.64.0.1', 'CGNAT'],
    ['169.254.169.254', 'cloud metadata'],
    ['168.63.129.16', 'cloud metadata'],
    ['169.254.1.1', 'link-local'],
    ['::ffff:8.8.8.8', 'IPv4-mapped'],
    ['64:ff9b::808:808', 'NAT64'],
    ['2002:808:808::', '6to4'],
    ['2001::1', 'Teredo'],
    ['4000::1', 'reserved'],
  ])('%s is named %s', (text, name) => {
    expect(specialRangeOf(parseIp(text)!)).toBe(name);
  });
});

describe('the policy', () => {
  const loopback: AddressPolicy = { allow: [parseRange('127.0.0.0/8')!], targets: [] };
  const receiver: AddressPolicy = { allow: [], targets: ['127.0.0.1:4000', '[::1]:4000'] };

  test.each([
    ['127.0.0.1', 80, 'loopback', PUBLIC_ONLY],
    ['8.8.8.8', 80, null, PUBLIC_ONLY],
    ['127.9.9.9', 80, null, loopback],
    ['10.0.0.1', 80, 'private network', loopback],
    ['::1', 80, 'loopback', loopback],
    ['::ffff:127.0.0.1', 80, 'IPv4-mapped', loopback],
    ['64:ff9b::7f00:1', 80, 'NAT64', loopback],
    ['127.0.0.1', 4000, null, receiver],
    ['::1', 4000, null, receiver],
    ['127.0.0.1', 4001, 'loopback', receiver],
    ['127.0.0.2', 4000, 'loopback', receiver],
    ['::ffff:127.0.0.1', 4000, 'IPv4-mapped', receiver],
    ['127.0.0.1', 400, 'loopback', { allow: [], targets: ['127.0.0.1', 'nonsense', '127.0.0.1:'] }],
  ] as const)('%s:%i under policy %# is refused as %s', (text, port, refusal, policy) => {
    expect(refusalOf(parseIp(text)!, port, policy)).toBe(refusal);
  });
});
