import { expect, test } from 'vitest';
import { raceWithTimeout } from '../../src/engine/race-with-timeout.ts';

const never = new Promise<string>(() => {});

test('work that ends in time gives its value or its error', async () => {
  expect(await raceWithTimeout(Promise.resolve('done'), 60_000, () => 'late')).toBe('done');
  await expect(raceWithTimeout(Promise.reject(new Error('no')), 60_000, () => 'late')).rejects.toThrow('no');
});

test('work that takes longer gives what the caller says: a value or an error', async () => {
  expect(await raceWithTimeout(never, 1, () => 'late')).toBe('late');
  const late = () => {
    throw new Error('too late');
  };
  await expect(raceWithTimeout(never, 1, late)).rejects.toThrow('too late');
});
