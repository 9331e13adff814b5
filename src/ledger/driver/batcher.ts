/**
 * Collects the items that callers add while a statement is in flight, sends them as one statement, and gives each caller its result. An
 * idle batcher sends immediately, without a timer.
 */
export type Batcher<Item, Answer> = {
  add(item: Item): Promise<Answer>;
  /** Resolves when no item is waiting or in flight. */
  idle(): Promise<void>;
};

/** The largest statement, in bytes. It bounds the time that a statement takes and the memory that it needs. */
const MAX_STATEMENT_LENGTH = 8 * 1_048_576;

/** Returns how many of the first `most` items go into one statement. It is at least one, whatever its length. */
export function fitting<Item>(items: readonly Item[], most: number, lengthOf: (item: Item) => number): number {
  const count = Math.min(most, items.length);
  let length = 0;
  for (let taken = 0; taken < count; taken++) {
    length += lengthOf(items[taken] as Item);
    if (length > MAX_STATEMENT_LENGTH && taken > 0) return taken;
  }
  return count;
}

/** Divides the items, in order, into groups that each fit into one statement. */
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
  /** Returns one result per item, in order. A result that is an Error rejects only the caller of its item. */
  send(items: Item[]): Promise<(Answer | Error)[]>;
  maxItems: number;
  /** The approximate length of an item in bytes. Without it the length is not limited. */
  lengthOf?(item: Item): number;
  /** The maximum number of statements in flight. */
  maxInFlight: number;
  /** If this many items wait and no statement is in flight, two halves are sent. One is then executed while the other is written. */
  splitAbove?: number;
  /** Beyond this number of waiting items, `add` rejects with `overflow()`. */
  maxWaiting: number;
  overflow(): Error;
  /** An item that waited longer than this is not sent: its caller gets `expired()`. */
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
  let itemsInFlight = 0;
  let idleWaiters: (() => void)[] = [];

  const flush = () => {
    isScheduled = false;
    while (waiting.length > 0 && inFlight < options.maxInFlight && isWorthIt()) {
      const most = Math.min(options.maxItems, isToSplit() ? Math.ceil(waiting.length / 2) : waiting.length);
      const size = lengthOf === undefined ? most : fitting(waiting, most, ({ item }) => lengthOf(item));
      const batch = waiting.slice(0, size);
      waiting = waiting.slice(size);
      inFlight++;
      itemsInFlight += size;
      void deliver(batch);
    }
  };

  // A small statement next to a large one costs more than it gains. Its callers wait for the large one to finish.
  const isWorthIt = () => inFlight === 0 || waiting.length >= itemsInFlight;

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
      itemsInFlight -= gathered.length;
      if (waiting.length > 0) schedule();
      else if (inFlight === 0) wakeIdle();
    }
  };

  // Runs after this turn of the event loop has read its sockets, so that all callers of the turn share a statement.
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
