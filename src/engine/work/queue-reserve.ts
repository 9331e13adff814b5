import type { Claims } from './claims.ts';

/** How many jobs of a queue have a slot. */
type HeldSlots = (queue: string) => number;

/**
 * The slots of a worker that are kept for queues with a reserved share. Jobs of other queues do not take them, so a flood in one queue
 * cannot occupy every slot.
 */
export class QueueReserve {
  readonly #slots: number;
  readonly #held: HeldSlots;
  /** How often the worker had been woken when no job was found in a queue. */
  readonly #emptyAt = new Map<string, number>();
  /** The slots of each queue that has any. */
  #reserved: ReadonlyMap<string, number> = new Map();

  constructor(slots: number, claims: Pick<Claims, 'slotsOf'>) {
    this.#slots = slots;
    this.#held = (queue) => claims.slotsOf(queue);
  }

  /** Only queues that the worker serves have reserved slots. Shares of more than the whole are scaled down. */
  set(queues: readonly string[], shares: ReadonlyMap<string, number>): void {
    const served = queues.flatMap((queue): [string, number][] => {
      const share = shares.get(queue) ?? 0;
      return share > 0 ? [[queue, share]] : [];
    });
    const sum = served.reduce((all, [, share]) => all + share, 0);
    const slotsOf = (share: number) => Math.floor((this.#slots * share) / Math.max(1, sum) + 1e-9);
    // A worker that serves one queue has no other jobs to keep slots from.
    const counted = queues.length > 1 ? served : [];
    this.#reserved = new Map(counted.map(([queue, share]): [string, number] => [queue, slotsOf(share)]).filter(([, slots]) => slots > 0));
  }

  /** A queue with reserved slots that its jobs have not taken. `wakes`: how often the worker was woken, because jobs may wait. */
  toFill(wakes: number): string | null {
    for (const queue of this.#reserved.keys()) if (this.#emptyAt.get(queue) !== wakes && this.leftOf(queue) > 0) return queue;
    return null;
  }

  /** A claim found no job in the queue, or no further job in any queue. */
  foundNone(wakes: number, only?: string): void {
    for (const queue of only === undefined ? this.#reserved.keys() : [only]) this.#emptyAt.set(queue, wakes);
  }

  /** The reserved slots of the queue that its jobs have not taken. */
  leftOf(queue: string, held: HeldSlots = this.#held): number {
    return Math.max(0, (this.#reserved.get(queue) ?? 0) - held(queue));
  }

  /** The slots that a job of the queue may not take. Without a queue: that a job of any queue might not take. */
  keptFrom(queue: string | null, held: HeldSlots = this.#held): number {
    let kept = 0;
    for (const other of this.#reserved.keys()) if (other !== queue) kept += this.leftOf(other, held);
    return kept;
  }
}
