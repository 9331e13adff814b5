import { BoundedTasks, type Task } from '../core/bounded-tasks.ts';

export type Urgency = 'soon' | 'later';

export type Turns = {
  /** So many at once, two at least. */
  readonly limit: number;
  /** So many of those that can wait; one of them at least runs, whatever else there is. */
  readonly later: number;
};

type Line = { running: number; readonly waiting: Task[] };

/** Runs what it is given, a few at once: the urgent before the others, and each kind in the order in which it came. */
export function takeTurns({ limit, later }: Turns): <T>(urgency: Urgency, work: () => Promise<T>) => Promise<T> {
  const lines: Record<Urgency, Line> = { soon: { running: 0, waiting: [] }, later: { running: 0, waiting: [] } };

  const mayStart = (urgency: Urgency): boolean => {
    // The last turn that is free belongs to those that can wait, unless one of them has a turn.
    if (urgency === 'soon') return lines.soon.running < limit - 1 || lines.later.waiting.length === 0;
    return lines.later.running < later && (lines.soon.waiting.length === 0 || lines.later.running === 0);
  };

  const tasks = new BoundedTasks(limit, () => {
    const urgency = (['soon', 'later'] as const).find((each) => lines[each].waiting.length > 0 && mayStart(each));
    if (urgency === undefined) return undefined;
    lines[urgency].running++;
    return lines[urgency].waiting.shift();
  });

  return (urgency, work) =>
    new Promise((resolve, reject) => {
      const line = lines[urgency];
      line.waiting.push(async () => {
        try {
          resolve(await work());
        } catch (error) {
          reject(error);
        } finally {
          line.running--;
        }
      });
      tasks.pump();
    });
}
