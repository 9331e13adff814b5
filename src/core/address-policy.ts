import { contains, type IpAddress, type IpRange, isSameAddress, parseIp, parseRange } from './ip-address.ts';

/** The non-public addresses that may be called. Public addresses are always allowed. */
export type AddressPolicy = {
  readonly allow: readonly IpRange[];
  /** Single endpoints, written `127.0.0.1:4000` or `[::1]:4000`. */
  readonly targets: readonly string[];
};

export const PUBLIC_ONLY: AddressPolicy = { allow: [], targets: [] };

/** The first match wins, so single hosts come before the ranges that contain them. */
const SPECIAL: readonly (readonly [name: string, ...ranges: string[]])[] = [
  ['cloud metadata', '169.254.169.254', '169.254.170.2', '100.100.100.200', '192.0.0.192', '168.63.129.16'],
  ['this network', '0.0.0.0/8'],
  ['private network', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'],
  ['CGNAT', '100.64.0.0/10'],
  ['loopback', '127.0.0.0/8'],
  ['link-local', '169.254.0.0/16'],
  ['IETF protocol assignment', '192.0.0.0/24'],
  ['documentation', '192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24'],
  ['AS112', '192.31.196.0/24', '192.175.48.0/24'],
  ['AMT', '192.52.193.0/24'],
  ['6to4 relay', '192.88.99.0/24'],
  ['benchmarking', '198.18.0.0/15'],
  ['multicast', '224.0.0.0/4'],
  ['broadcast', '255.255.255.255'],
  ['reserved', '240.0.0.0/4'],
  ['cloud metadata', 'fd00:ec2::254', 'fd20:ce::254'],
  ['unspecified', '::'],
  ['loopback', '::1'],
  ['IPv4-mapped', '::ffff:0:0/96'],
  ['IPv4-compatible', '::/96'],
  ['NAT64', '64:ff9b::/96', '64:ff9b:1::/48'],
  ['discard', '100::/64'],
  ['Teredo', '2001::/32'],
  ['IETF protocol assignment', '2001::/23'],
  ['documentation', '2001:db8::/32', '3fff::/20'],
  ['6to4', '2002::/16'],
  ['AS112', '2620:4f:8000::/48'],
  ['segment routing', '5f00::/16'],
  ['private network', 'fc00::/7'],
  ['link-local', 'fe80::/10'],
  ['site-local', 'fec0::/10'],
  ['multicast', 'ff00::/8'],
];

const NAMED_RANGES = SPECIAL.flatMap(([name, ...ranges]) => ranges.map((text) => ({ name, range: parseRange(text)! })));

/** The only part of IPv6 that IANA has allocated for global use. */
const GLOBAL_V6 = parseRange('2000::/3')!;

/** Returns what a special address is for, or null for a public one. */
export function specialRangeOf(address: IpAddress): string | null {
  const named = NAMED_RANGES.find(({ range }) => contains(range, address));
  if (named !== undefined) return named.name;
  return address.version === 6 && !contains(GLOBAL_V6, address) ? 'reserved' : null;
}

/** Returns null when the policy allows a connection to this address and port; otherwise what kind of address it is. */
export function refusalOf(address: IpAddress, port: number, policy: AddressPolicy): string | null {
  const name = specialRangeOf(address);
  if (name === null) return null;
  if (policy.allow.some((range) => contains(range, address))) return null;
  return policy.targets.some((target) => isTarget(target, address, port)) ? null : name;
}

function isTarget(target: string, address: IpAddress, port: number): boolean {
  const colon = target.lastIndexOf(':');
  const host = parseIp(target.slice(0, colon).replace(/^\[(.*)\]$/, '$1'));
  return host !== null && isSameAddress(host, address) && target.slice(colon + 1) === String(port);
}
