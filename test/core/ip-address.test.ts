import { isIP } from 'node:net';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { contains, isSameAddress, parseIp, parseRange } from '../../src/core/ip-address.ts';

describe('addresses', () => {
  test.each([
    ['0.0.0.0', 4, 0n],
    ['127.0.0.1', 4, 0x7f000001n],
    ['255.255.255.255', 4, 0xffffffffn],
    ['::', 6, 0n],
    ['::1', 6, 1n],
    ['1::', 6, 1n << 112n],
    ['::ffff:127.0.0.1', 6, 0xffff_7f00_0001n],
    ['1:2:3:4:5:6:7:8', 6, 0x0001_0002_0003_0004_0005_0006_0007_0008n],
    ['1:2:3:4:5:6:1.2.3.4', 6, 0x0001_0002_0003_0004_0005_0006_0102_0304n],
    ['FE80::aBcD', 6, 0xfe80_0000_0000_0000_0000_0000_0000_abcdn],
  ] as const)('%s is read', (text, version, value) => {
    expect(parseIp(text)).toEqual({ version, value });
  });

  test.each([
    ...['', '1', '1.2.3', '1.2.3.4.5', '1.2.3.256', '01.2.3.4', '1.2.3.4 ', '0x7f.0.0.1', '1..2.3', '-1.2.3.4', '１.2.3.4'],
    ...[':', ':::', '1:', ':1', '1::2::3', '1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', '1:2:3:4::5:6:7:8', '12345::', 'g::'],
    ...['::1%lo', '[::1]', '::1.2.3', '1.2.3.4::', '::1.2.3.4:5', '::256.0.0.1', '1:2:3:4:5:6:7:1.2.3.4'],
  ])('%j is no address', (text) => {
    expect(parseIp(text)).toBeNull();
  });

  test('the same texts are addresses as for the runtime', () => {
    const piece = fc.oneof(fc.constantFrom(':', '::', '.', '0', '1', 'ffff', '255', '256', '01', 'g', ''), fc.ipV4(), fc.ipV6());
    const text = fc.oneof(
      fc.ipV4(),
      fc.ipV6(),
      fc.ipV4Extended(),
      fc.array(piece, { maxLength: 12 }).map((all) => all.join('')),
    );
    fc.assert(
      fc.property(text, (candidate) => {
        expect(parseIp(candidate)?.version ?? 0).toBe(isIP(candidate));
      }),
      { numRuns: 5_000 },
    );
  });

  test('every spelling of an IPv6 address means the same', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 }), (groups) => {
        const hex = groups.map((group) => group.toString(16));
        const long = parseIp(hex.map((group) => group.padStart(4, '0')).join(':'));
        const dotted = groups.slice(6).flatMap((group) => [group >> 8, group & 0xff]);
        const spellings = [hex.join(':').toUpperCase(), new URL(`http://[${hex.join(':')}]/`).hostname.slice(1, -1)];
        for (const spelling of [...spellings, `${hex.slice(0, 6).join(':')}:${dotted.join('.')}`]) {
          expect(isSameAddress(parseIp(spelling)!, long!)).toBe(true);
        }
      }),
    );
  });
});

describe('ranges', () => {
  test.each([
    ['127.0.0.0/8', '127.0.0.0', '127.255.255.255'],
    ['0.0.0.0/0', '0.0.0.0', '255.255.255.255'],
    ['10.1.2.3', '10.1.2.3', '10.1.2.3'],
    ['10.1.2.3/32', '10.1.2.3', '10.1.2.3'],
    ['::1/128', '::1', '::1'],
    ['fc00::/7', 'fc00::', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['::/0', '::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ])('%s goes from %s to %s', (text, low, high) => {
    const range = parseRange(text)!;
    expect([range.low, range.high, range.text]).toEqual([parseIp(low)!.value, parseIp(high)!.value, text]);
    expect(contains(range, parseIp(low)!) && contains(range, parseIp(high)!)).toBe(true);
  });

  test.each([
    ...['', '/', '/8', '10.0.0.0/', '10.0.0.0/33', '10.0.0.0/08', '10.0.0.0/-1', '10.0.0.0/8/8', '10/8', '::/129', 'localhost'],
    ...['10.0.0.1/8', '::1/64'],
  ])('%j is no range', (text) => {
    expect(parseRange(text)).toBeNull();
  });

  test('an address just outside is not in it', () => {
    const range = parseRange('172.16.0.0/12')!;
    expect(['172.15.255.255', '172.32.0.0', '::ac10:1'].filter((text) => contains(range, parseIp(text)!))).toEqual([]);
  });

  test('an IPv4 range has no IPv6 address in it, mapped or not', () => {
    const all = parseRange('0.0.0.0/0')!;
    expect(contains(all, parseIp('::ffff:1.2.3.4')!) || contains(all, parseIp('::1')!)).toBe(false);
    expect(contains(parseRange('::/0')!, parseIp('1.2.3.4')!)).toBe(false);
  });
});
