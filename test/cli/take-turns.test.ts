import { expect, test } from 'vitest';
import { takeTurns, type Urgency } from '../../src/platform/take-turns.ts';

/** Work that ends when it is told to; `started` names it in the order of its start. */
function useTurns(turns: { limit: number; later: number }) {
  const take = takeTurns(turns);
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  return {
    started,
    give: (urgency: Urgency, ...names: string[]) => {
      for (const name of names)
        void take(urgency, () => {
          started.push(name);
          return new Promise<void>((resolve) => ends.set(name, resolve));
        });
      return settled();
    },
    end: (name: string) => {
      ends.get(name)?.();
      return settled();
    },
  };
}

test('so many run at once, in the order in which they came', async () => {
  const { started, give, end } = useTurns({ limit: 2, later: 1 });
  await give('soon', 'a', 'b', 'c', 'd');
  expect(started).toEqual(['a', 'b']);
  await end('b');
  await end('a');
  expect(started).toEqual(['a', 'b', 'c', 'd']);
});

test('what can wait has its share at most, and what is urgent goes before it', async () => {
  const { started, give, end } = useTurns({ limit: 4, later: 2 });
  await give('later', 'x1', 'x2', 'x3', 'x4');
  expect(started).toEqual(['x1', 'x2']);
  await give('soon', 'a', 'b', 'c');
  expect(started).toEqual(['x1', 'x2', 'a', 'b']);
  await end('x1');
  expect(started).toEqual(['x1', 'x2', 'a', 'b', 'c']);
});

test('what can wait keeps one turn however much is urgent', async () => {
  const { started, give, end } = useTurns({ limit: 3, later: 1 });
  await give('soon', 'a', 'b', 'c', 'd', 'e');
  await give('later', 'x');
  expect(started).toEqual(['a', 'b', 'c']);
  await end('a');
  expect(started).toEqual(['a', 'b', 'c', 'x']);
  await end('x');
  expect(started).toEqual(['a', 'b', 'c', 'x', 'd']);
});

test('work that fails gives its turn back', async () => {
  const take = takeTurns({ limit: 1, later: 1 });
  await expect(take('soon', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await take('later', async () => 'next')).toBe('next');
});
