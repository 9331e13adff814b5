import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEFAULT_PRIORITY, inheritPriority, isPriority, PRIORITIES, priorityName, priorityNumber } from '../../src/core/priority.ts';

describe('priorities', () => {
  it.each([
    ['CRITICAL', 0, '[GM-3.01]'],
    ['HIGH', 1, '[GM-3.02]'],
    ['NORMAL', 2, '[GM-3.03]'],
    ['LOW', 3, '[GM-3.05]'],
    ['BULK', 4, '[GM-3.06]'],
  ] as const)('%s has the number %i %s', (name, number, _requirement) => {
    expect(priorityNumber(name)).toBe(number);
    expect(priorityName(number)).toBe(name);
  });

  it('are five, and NORMAL is the default [GM-3.04]', () => {
    expect(PRIORITIES).toHaveLength(5);
    expect(DEFAULT_PRIORITY).toBe('NORMAL');
  });

  it('know their own words and numbers only', () => {
    for (const word of ['critical', 'URGENT', '', 2, null]) expect(isPriority(word)).toBe(false);
    for (const number of [-1, 5, 1.5]) expect(() => priorityName(number)).toThrow('no priority has the number');
  });
});

describe('inheritPriority', () => {
  const number = fc.integer({ min: 0, max: 4 });

  it('takes the most urgent of the job and its dependencies, whatever their levels [GM-3.11] [GM-6.11] [GM-6.12]', () => {
    expect(inheritPriority(3, [2, 0, 4])).toBe(0);
    fc.assert(
      fc.property(number, fc.array(number), (own, others) => {
        expect(inheritPriority(own, others)).toBe(Math.min(own, ...others));
      }),
    );
  });

  it('never lowers the urgency a job has of its own', () => {
    expect(inheritPriority(0, [4, 3])).toBe(0);
    expect(inheritPriority(2, [])).toBe(2);
  });
});
