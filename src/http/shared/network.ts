import { isIPv4, isIPv6 } from 'node:net';

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** The network that an address counts as. A sender with one IPv6 address usually has its whole /64 network. */
export function networkOf(address: string): string {
  if (isIPv4(address)) return address;
  const mapped = MAPPED.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  // Through a proxy that forwards any text, senders without an address count as one.
  if (!isIPv6(address)) return '';
  const [head = '', tail] = (address.split('%', 1)[0] as string).toLowerCase().split('::');
  const groups = head === '' ? [] : head.split(':');
  const rest = tail === undefined || tail === '' ? [] : tail.split(':');
  while (groups.length + rest.length < 8) groups.push('0');
  return [...groups, ...rest]
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':');
}
