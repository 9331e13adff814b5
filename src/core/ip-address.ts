export type IpAddress = { readonly version: 4 | 6; readonly value: bigint };

export type IpRange = {
  readonly version: 4 | 6;
  readonly low: bigint;
  readonly high: bigint;
  readonly text: string;
};

const BITS = { 4: 32, 6: 128 } as const;
const GROUPS = 8;
const OCTET = /^(?:0|[1-9]\d{0,2})$/;
const GROUP = /^[0-9a-f]{1,4}$/i;
const PREFIX = /^(?:0|[1-9]\d{0,2})$/;

/** Accepts canonical dotted IPv4 and every RFC 4291 form of IPv6, without zones and brackets. */
export function parseIp(text: string): IpAddress | null {
  if (text.includes(':')) return parseV6(text);
  const value = parseV4(text);
  return value === null ? null : { version: 4, value };
}

function parseV4(text: string): bigint | null {
  const octets = text.split('.');
  if (octets.length !== 4) return null;
  let value = 0n;
  for (const octet of octets) {
    if (!OCTET.test(octet) || Number(octet) > 255) return null;
    value = (value << 8n) | BigInt(octet);
  }
  return value;
}

function parseV6(text: string): IpAddress | null {
  const halves = text.split('::');
  if (halves.length > 2) return null;
  const isCompressed = halves.length === 2;
  const head = parseGroups(halves[0]!, !isCompressed);
  const tail = isCompressed ? parseGroups(halves[1]!, true) : [];
  if (head === null || tail === null) return null;
  const missing = GROUPS - head.length - tail.length;
  // "::" stands for at least one group.
  if (isCompressed ? missing < 1 : missing !== 0) return null;
  const groups = [...head, ...new Array<bigint>(missing).fill(0n), ...tail];
  return { version: 6, value: groups.reduce((value, group) => (value << 16n) | group, 0n) };
}

/** An IPv6 address may end with a dotted IPv4 address, which fills two groups. */
function parseGroups(text: string, endsAddress: boolean): bigint[] | null {
  if (text === '') return [];
  const groups: bigint[] = [];
  const parts = text.split(':');
  for (const [index, part] of parts.entries()) {
    const embedded = endsAddress && index === parts.length - 1 && part.includes('.') ? parseV4(part) : null;
    if (embedded !== null) groups.push(embedded >> 16n, embedded & 0xffffn);
    else if (GROUP.test(part)) groups.push(BigInt(`0x${part}`));
    else return null;
  }
  return groups;
}

/** Accepts `127.0.0.0/8`, `::1/128` or one address. Bits after the prefix are probably a mistake, so the result is null. */
export function parseRange(text: string): IpRange | null {
  const slash = text.indexOf('/');
  const address = parseIp(slash === -1 ? text : text.slice(0, slash));
  if (address === null) return null;
  const bits = BITS[address.version];
  const prefix = slash === -1 ? String(bits) : text.slice(slash + 1);
  if (!PREFIX.test(prefix) || Number(prefix) > bits) return null;
  const span = (1n << BigInt(bits - Number(prefix))) - 1n;
  if ((address.value & span) !== 0n) return null;
  return { version: address.version, low: address.value, high: address.value | span, text };
}

/** A range contains addresses of its own version only: `::ffff:10.0.0.1` is not in `10.0.0.0/8`. */
export function contains(range: IpRange, address: IpAddress): boolean {
  return range.version === address.version && range.low <= address.value && address.value <= range.high;
}

export function isSameAddress(a: IpAddress, b: IpAddress): boolean {
  return a.version === b.version && a.value === b.value;
}
