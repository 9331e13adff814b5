/** Of queues in the order of submission, which have one order for all of them. */
const BY_SUBMISSION = '';

/**
 * Whose turn it is. Queues that are claimed in the order of submission stand in one line; each fair queue has an order of its own
 * that says nothing about any other. So these lines take turns: the one that was served longest ago comes first. Among jobs of one
 * priority, that is; a line that got a turn for an urgent job has not used up that of its others.
 */
export class Turns {
  /** By priority: the lines, first those whose turn it is. */
  #orders: string[][];
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

  /** Zero for whose turn it is, and for all where there is but one line. */
  rankOf(queue: string, priority: number): number {
    return Math.max(0, this.#orders[priority]?.indexOf(this.#lineOf(queue)) ?? 0);
  }

  /** Puts the line of the queue last. Answers whether that changed anything. */
  served(queue: string, priority: number): boolean {
    const order = this.#orders[priority] ?? [];
    const line = this.#lineOf(queue);
    if (order.length < 2 || order.at(-1) === line || !order.includes(line)) return false;
    order.push(...order.splice(order.indexOf(line), 1));
    return true;
  }

  #lineOf(queue: string): string {
    return this.#fair.has(queue) ? queue : BY_SUBMISSION;
  }
}
