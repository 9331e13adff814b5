import { expect, test } from 'vitest';
import { BoundedTasks } from '../../src/core/bounded-tasks.ts';
import { until } from '../until.ts';

test('at most so many tasks run at once, and the next starts when one ends', async () => {
  const tasks = ['a', 'b', 'c', 'd'].map((name) => ({ name, end: Promise.withResolvers<void>() }));
  const started: string[] = [];
  const waiting = [...tasks];
  const bounded = new BoundedTasks(2, () => {
    const task = waiting.shift();
    return (
      task &&
      (() => {
        started.push(task.name);
        return task.end.promise;
      })
    );
  });
  bounded.pump();
  bounded.pump();
  expect(started).toEqual(['a', 'b']);
  for (const [index, expected] of [
    [1, 'c'],
    [0, 'd'],
  ] as const) {
    tasks[index]?.end.resolve();
    await until('the next task has started', () => started.at(-1), expected);
  }
  expect(started).toEqual(['a', 'b', 'c', 'd']);
});
