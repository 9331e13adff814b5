/**
 * Gathers what callers ask for while the previous statement is under way, sends it as one statement, and hands each caller
 * its own answer. An idle batcher sends at once: no timer, no added delay.
 */
export type Batcher<Item, Answer> = {
  add(item: Item): Promise<Answer>;
  /** Resolves when nothing is waiting or under way. */
  idle(): Promise<void>;
};

/** What one statement carries at most, so that it neither outlives its time nor fills the memory. */
const MAX_STATEMENT_LENGTH = 8 * 1_048_576;

/** How many of the first `most` items go into one statement: one at least, however long. */
export function fitting<Item>(items: readonly Item[], most: number, lengthOf: (item: Item) => number): number {
  const count = Math.min(most, items.length);
  let length = 0;
  for (let taken = 0; taken < count; taken++) {
    length += lengthOf(items[taken] as Item);
    if (length > MAX_STATEMENT_LENGTH && taken > 0) return taken;
  }
  return count;
}

/** All items in order, cut into what fits into a statement each. */
export function inStatements<Item>(items: readonly Item[], most: number, lengthOf: (item: Item) => number): Item[][] {
  const cut: Item[][] = [];
  let rest = items.slice();
  while (rest.length > 0) {
    const size = fitting(rest, most, lengthOf);
    cut.push(rest.slice(0, size));
    rest = rest.slice(size);
  }
  return cut;
}

export type BatcherOptions<Item, Answer> = {
  /** One answer per item, in order. An answer that is an Error rejects its caller only. */
  send(items: Item[]): Promise<(Answer | Error)[]>;
  maxItems: number;
  /** About how many bytes an item is in a statement; without it, none to speak of. */
  lengthOf?(item: Item): number;
  /** Statements under way at once. */
  maxInFlight: number;
  /** With this many waiting and nothing under way two halves are sent, so that one is answered while the other is written. */
  splitAbove?: number;
  /** More waiting than this is refused with `overflow()`. */
  maxWaiting: number;
  overflow(): Error;
  /** One that waited longer than this is not sent any more but refused with `expired()`. */
  maxWaitMs?: number;
  expired?(): Error;
};

type Waiter<Item, Answer> = {
  item: Item;
  sinceMs: number;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
};

export function createBatcher<Item, Answer>(options: BatcherOptions<Item, Answer>): Batcher<Item, Answer> {
  const { lengthOf } = options;
  let waiting: Waiter<Item, Answer>[] = [];
  let inFlight = 0;
  let isScheduled = false;
  let lastSize = 0;
  let idleWaiters: (() => void)[] = [];

  const flush = () => {
    isScheduled = false;
    while (waiting.length > 0 && inFlight < options.maxInFlight && isWorthIt()) {
      const most = Math.min(options.maxItems, isToSplit() ? Math.ceil(waiting.length / 2) : waiting.length);
      const size = lengthOf === undefined ? most : fitting(waiting, most, ({ item }) => lengthOf(item));
      const batch = waiting.slice(0, size);
      waiting = waiting.slice(size);
      inFlight++;
      lastSize = size;
      void deliver(batch);
    }
  };

  // Beside a large statement a small one costs more than it gains: its callers go with those whom the large one answers.
  const isWorthIt = () => inFlight === 0 || waiting.length * 2 >= lastSize;

  const isToSplit = () => options.splitAbove !== undefined && inFlight === 0 && waiting.length >= options.splitAbove;

  const stillWanted = (batch: Waiter<Item, Answer>[]): Waiter<Item, Answer>[] => {
    const { maxWaitMs, expired } = options;
    const oldestMs = performance.now() - (maxWaitMs ?? Number.POSITIVE_INFINITY);
    if (expired === undefined || (batch[0] as Waiter<Item, Answer>).sinceMs >= oldestMs) return batch;
    for (const waiter of batch) if (waiter.sinceMs < oldestMs) waiter.reject(expired());
    return batch.filter((waiter) => waiter.sinceMs >= oldestMs);
  };

  const deliver = async (gathered: Waiter<Item, Answer>[]) => {
    const batch = stillWanted(gathered);
    try {
      if (batch.length === 0) return;
      const answers = await options.send(batch.map((waiter) => waiter.item));
      batch.forEach((waiter, index) => {
        const answer = answers[index] as Answer | Error;
        if (answer instanceof Error) waiter.reject(answer);
        else waiter.resolve(answer);
      });
    } catch (error) {
      for (const waiter of batch) waiter.reject(error);
    } finally {
      inFlight--;
      if (waiting.length > 0) schedule();
      else if (inFlight === 0) wakeIdle();
    }
  };

  // When this turn of the event loop has read its sockets, so that all who came in it share a statement.
  const schedule = () => {
    if (isScheduled || inFlight >= options.maxInFlight) return;
    isScheduled = true;
    setImmediate(flush);
  };

  const wakeIdle = () => {
    const waiters = idleWaiters;
    idleWaiters = [];
    for (const wake of waiters) wake();
  };

  return {
    add(item) {
      if (waiting.length >= options.maxWaiting) return Promise.reject(options.overflow());
      return new Promise<Answer>((resolve, reject) => {
        waiting.push({ item, sinceMs: performance.now(), resolve, reject });
        schedule();
      });
    },
    async idle() {
      if (waiting.length === 0 && inFlight === 0) return;
      await new Promise<void>((resolve) => idleWaiters.push(resolve));
    },
  };
}
