import { expect, it } from 'vitest';
import { SharedUse, shareOf } from '../../src/core/fair-share.ts';

const HALF = { limit: 1_000, part: 0.5 };

it('a lone holder may fill its part, and no more', () => {
  expect(shareOf(HALF, { own: 0, all: 0 })).toBe(500);
  expect(shareOf(HALF, { own: 500, all: 500 })).toBe(500);
});

it('with the part 1 a lone holder may fill everything', () => {
  expect(shareOf({ limit: 5, part: 1 }, { own: 4, all: 4 })).toBe(5);
  expect(shareOf({ limit: 5, part: 1 }, { own: 1, all: 5 })).toBe(1);
});

it('a full limit has no share left for a newcomer', () => {
  expect(shareOf(HALF, { own: 0, all: 1_000 })).toBe(0);
  expect(shareOf({ limit: 0, part: 0.5 }, { own: 0, all: 0 })).toBe(0);
});

it('however greedy twenty holders are, the next one has room', () => {
  let all = 0;
  for (let holder = 0; holder < 20; holder++) all += shareOf(HALF, { own: 0, all });
  expect(all).toBeLessThan(950);
  expect(shareOf(HALF, { own: 0, all })).toBeGreaterThan(5);
});

it('the smallest limits still admit one', () => {
  expect(shareOf({ limit: 1, part: 0.5 }, { own: 0, all: 0 })).toBe(1);
  expect(shareOf({ limit: 2, part: 0.1 }, { own: 0, all: 1 })).toBe(1);
});

it('a holder that got beyond its share takes no room of others', () => {
  const use = new SharedUse(HALF);
  use.replace({ all: 5_003, holders: new Map(Object.entries({ huge: 5_000, small: 3 })) });
  expect([use.room('huge') < 1, use.own('small')]).toEqual([true, 3]);
  expect(use.room('small')).toBeGreaterThan(40);
  expect(use.room('new')).toBeGreaterThan(40);
});
