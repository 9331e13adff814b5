import { isIPv4, isIPv6 } from 'node:net';
import { BoundedMap } from '../shared/bounded-map.ts';
import type { LimitVerdict } from '../shared/identity.ts';

export type AddressLimiterOptions = { callsPerMinute: number; capacity?: number; nowMs?: () => number };

type Window = { calls: number; readonly endsAtMs: number };

const WINDOW_MS = 60_000;
const CAPACITY = 10_000;

/**
 * Counts requests without a key by the address of their sender. Each process counts alone: the count only has to stop one
 * sender from creating clients without end.
 */
export class AddressLimiter {
  readonly #limit: number;
  readonly #windows: BoundedMap<Window>;
  readonly #nowMs: () => number;

  constructor({ callsPerMinute, capacity = CAPACITY, nowMs = () => performance.now() }: AddressLimiterOptions) {
    this.#limit = callsPerMinute;
    this.#windows = new BoundedMap(capacity);
    this.#nowMs = nowMs;
  }

  take(address: string): LimitVerdict {
    const network = networkOf(address);
    const nowMs = this.#nowMs();
    const found = this.#windows.get(network);
    const window = found !== undefined && found.endsAtMs > nowMs ? found : { calls: 0, endsAtMs: nowMs + WINDOW_MS };
    if (window !== found) this.#windows.set(network, window);
    const allowed = window.calls < this.#limit;
    if (allowed) window.calls++;
    return { allowed, limit: this.#limit, remaining: this.#limit - window.calls, resetMs: window.endsAtMs - nowMs };
  }
}

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** A sender with one IPv6 address usually has its whole /64 network, so the network counts as one address. */
function networkOf(address: string): string {
  const mapped = MAPPED.exec(address)?.[1];
  if (mapped !== undefined || isIPv4(address)) return mapped ?? address;
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
