import type { Issues } from '../issues.ts';

/** What an operator may set of a queue. Null removes a setting. */
export type QueueSettingsChange = {
  order?: 'fifo' | 'fair';
  /** Its jobs that run at the same time, over all workers. */
  concurrency?: number | null;
  /** Its jobs that start a second, over all workers. */
  rate?: number | null;
  /** Its jobs that may wait for a worker. */
  depthCap?: number | null;
  /** How long its jobs should wait at most, in seconds. */
  sloSeconds?: number | null;
  /** The part of the slots of each worker that jobs of other queues do not take. */
  reservedShare?: number | null;
};

type Bounds = { readonly name: string; readonly min?: number; readonly above?: number; readonly max: number; readonly isWhole?: boolean };

const HIGHEST = 1_000_000_000;

/** The bounds of the numbers, with the names that the API and the configuration use. */
export const QUEUE_NUMBERS = {
  concurrency: { name: 'concurrency', min: 1, max: HIGHEST, isWhole: true },
  rate: { name: 'rate', above: 0, max: 1_000_000 },
  depthCap: { name: 'depth_cap', min: 1, max: HIGHEST, isWhole: true },
  sloSeconds: { name: 'slo_seconds', above: 0, max: HIGHEST },
  reservedShare: { name: 'reserved_share', min: 0, max: 1 },
} as const satisfies Record<string, Bounds>;

export const CLAIM_ORDERS = ['fifo', 'fair'] as const;

/** Adds an issue for each value that is out of bounds. */
export function checkQueueSettings(change: QueueSettingsChange, issues: Issues): void {
  const { order } = change;
  if (order !== undefined && !CLAIM_ORDERS.includes(order)) issues.add('order', 'INVALID_VALUE', 'must be "fifo" or "fair"');
  const { concurrency, rate, depthCap, sloSeconds, reservedShare } = change;
  const numbers = [
    [concurrency, QUEUE_NUMBERS.concurrency],
    [rate, QUEUE_NUMBERS.rate],
    [depthCap, QUEUE_NUMBERS.depthCap],
    [sloSeconds, QUEUE_NUMBERS.sloSeconds],
    [reservedShare, QUEUE_NUMBERS.reservedShare],
  ] as const;
  for (const [value, bounds] of numbers) {
    if (value != null && !isWithin(value, bounds)) issues.add(bounds.name, 'OUT_OF_RANGE', `must be ${describe(bounds)}, or null for none`);
  }
}

function isWithin(value: unknown, { min, above, max, isWhole = false }: Bounds): boolean {
  if (typeof value !== 'number' || !Number.isFinite(value) || (isWhole && !Number.isInteger(value))) return false;
  return value <= max && (min === undefined || value >= min) && (above === undefined || value > above);
}

function describe({ min, above, max, isWhole = false }: Bounds): string {
  const kind = isWhole ? 'an integer' : 'a number';
  return above === undefined ? `${kind} from ${min} to ${max}` : `${kind} greater than ${above} and at most ${max}`;
}
