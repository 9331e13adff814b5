export type Urgency = 'soon' | 'later';

export type Turns = {
  /** So many at once, two at least. */
  readonly limit: number;
  /** So many of those that can wait; one of them at least runs, whatever else there is. */
  readonly later: number;
};

type Line = { running: number; readonly waiting: (() => void)[] };

/** Runs what it is given, a few at once: the urgent before the others, and each kind in the order in which it came. */
export function takeTurns({ limit, later }: Turns): <T>(urgency: Urgency, work: () => Promise<T>) => Promise<T> {
  const lines: Record<Urgency, Line> = { soon: { running: 0, waiting: [] }, later: { running: 0, waiting: [] } };

  const mayStart = (urgency: Urgency): boolean => {
    if (lines.soon.running + lines.later.running >= limit) return false;
    // The last turn that is free belongs to those that can wait, unless one of them has a turn.
    if (urgency === 'soon') return lines.soon.running < limit - 1 || lines.later.waiting.length === 0;
    return lines.later.running < later && (lines.soon.waiting.length === 0 || lines.later.running === 0);
  };

  const startNext = () => {
    for (const urgency of ['soon', 'later'] as const) {
      const line = lines[urgency];
      while (line.waiting.length > 0 && mayStart(urgency)) {
        line.running++;
        line.waiting.shift()?.();
      }
    }
  };

  return async (urgency, work) => {
    const line = lines[urgency];
    const turn = new Promise<void>((resolve) => line.waiting.push(resolve));
    startNext();
    await turn;
    try {
      return await work();
    } finally {
      line.running--;
      startNext();
    }
  };
}
