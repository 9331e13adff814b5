import { BoundedMap } from '../shared/bounded-map.ts';
import type { LimitVerdict } from '../shared/identity.ts';
import { networkOf } from '../shared/network.ts';

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
