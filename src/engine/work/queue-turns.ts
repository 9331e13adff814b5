type Line = 'by submission' | 'by org';

/**
 * Decides which queues a claim prefers. Queues that are claimed in the order of submission share one line, and fair queues share another.
 * The two orders cannot be compared, so lines take turns: the line that was served longest ago comes first. Each priority has separate
 * turns, so an urgent job does not use up the turn of the other jobs in its line.
 */
export class QueueTurns {
  /** By priority: the lines, with the next turn first. */
  #orders: Line[][];
  #fair: ReadonlySet<string> = new Set();

  constructor(priorities: number) {
    this.#orders = Array.from({ length: priorities }, () => []);
  }

  set(queues: readonly string[], fair: ReadonlySet<string>): void {
    this.#fair = fair;
    const lines = new Set(queues.map((queue) => this.#lineOf(queue)));
    this.#orders = this.#orders.map((order) => [...new Set([...order.filter((line) => lines.has(line)), ...lines])]);
  }

  /** How many lines take turns. */
  get lines(): number {
    return this.#orders[0]?.length ?? 0;
  }

  /** Zero for the line whose turn it is, and for all queues if there is only one line. */
  rankOf(queue: string, priority: number): number {
    return Math.max(0, this.#orders[priority]?.indexOf(this.#lineOf(queue)) ?? 0);
  }

  /** Puts the line of the queue last. Returns whether that changed the order. */
  served(queue: string, priority: number): boolean {
    const order = this.#orders[priority] ?? [];
    const line = this.#lineOf(queue);
    if (order.length < 2 || order.at(-1) === line || !order.includes(line)) return false;
    order.push(...order.splice(order.indexOf(line), 1));
    return true;
  }

  #lineOf(queue: string): Line {
    return this.#fair.has(queue) ? 'by org' : 'by submission';
  }
}
