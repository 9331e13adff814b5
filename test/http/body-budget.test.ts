import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { BodyBudget } from '../../src/http/shared/body-budget.ts';
import { Inflater } from '../../src/http/shared/inflate.ts';

const KB = 1_024;

/** The bytes that a caller gets when it takes a kilobyte at a time. */
function fill(budget: BodyBudget, holder: string): number {
  const hold = budget.open(holder);
  for (let taken = 0; ; taken++) {
    try {
      hold.take(KB);
    } catch {
      return taken;
    }
  }
}

it('a lone caller gets two thirds of the memory for bodies, and what it holds is refused to it alone', () => {
  const budget = new BodyBudget(90 * KB);
  expect(fill(budget, 'greedy')).toBe(60);
  expect(() => budget.open('greedy').take(1)).toThrow(expect.objectContaining({ code: 'UNAVAILABLE', retryAfterMs: 1_000 }));
  expect(fill(budget, 'other')).toBeGreaterThanOrEqual(18);
});

it('however many callers take what they can, one more still finds room', () => {
  const budget = new BodyBudget(10_000 * KB);
  for (let caller = 0; caller < 20; caller++) {
    const hold = budget.open(`caller ${caller}`);
    for (let size = 1_024 * KB; size >= KB; size /= 2) {
      try {
        for (;;) hold.take(size);
      } catch {}
    }
  }
  expect(() => budget.open('newcomer').take(1)).not.toThrow();
});

it('bytes are free again when their request is over, once', () => {
  const budget = new BodyBudget(90 * KB);
  const hold = budget.open('a');
  hold.take(40 * KB);
  hold.give(10 * KB);
  expect(budget.used).toBe(30 * KB);
  hold.release();
  hold.release();
  hold.take(KB);
  expect(budget.used).toBe(0);
});

it('few bodies are inflated at once, however many wait', async () => {
  const inflater = new Inflater();
  const size = 1_000 * KB;
  const body = gzipSync(Buffer.alloc(size));
  const budget = new BodyBudget(1_000_000 * KB);
  let most = 0;
  let isOver = false;
  const watch = (): void => {
    most = Math.max(most, budget.used);
    if (!isOver) setImmediate(watch);
  };
  watch();
  const inflated = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const hold = budget.open('a');
      const result = await inflater.inflate(body, { limit: size, hold });
      hold.release();
      return result.kind === 'inflated' ? result.bytes.length : result.kind;
    }),
  );
  isOver = true;
  expect(inflated).toEqual(Array.from({ length: 20 }, () => size));
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(2 * size);
});
