import { BoundedTasks, type Task } from '../core/bounded-tasks.ts';

export type Urgency = 'soon' | 'later';

export type Turns = {
  /** How much work runs at the same time; at least two. */
  readonly limit: number;
  /** How much work of the lower priority runs at the same time. One piece of it can always run. */
  readonly later: number;
};

type Line = { running: number; readonly waiting: Task[] };

/** Runs a limited number of tasks at the same time: urgent ones first, and those of equal priority in order of arrival. */
export function takeTurns({ limit, later }: Turns): <T>(urgency: Urgency, work: () => Promise<T>) => Promise<T> {
  const lines: Record<Urgency, Line> = { soon: { running: 0, waiting: [] }, later: { running: 0, waiting: [] } };

  const mayStart = (urgency: Urgency): boolean => {
    // The last free turn is kept for waiting work of the lower priority, unless such work already runs.
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
