import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { QueueTurns } from '../../src/engine/work/queue-turns.ts';

const turnsOf = (queues: readonly string[], fair: readonly string[]): QueueTurns => {
  const turns = new QueueTurns(2);
  turns.set(queues, new Set(fair));
  return turns;
};

describe('lines that have no order in common', () => {
  it('are all one where no queue is fair', () => {
    const turns = turnsOf(['a', 'b'], []);
    expect(turns.served('a', 0)).toBe(false);
    expect([turns.rankOf('a', 0), turns.rankOf('b', 0)]).toEqual([0, 0]);
  });

  it('come first in turn: none that waits is passed over more often than there are others', () => {
    const fair = ['f1', 'f2', 'f3'];
    const lines = ['plain', ...fair];
    fc.assert(
      fc.property(fc.array(fc.subarray(lines, { minLength: 1 }), { maxLength: 60 }), (rounds) => {
        const turns = turnsOf(['plain', 'other', ...fair], fair);
        const passedOver = new Map(lines.map((line) => [line, 0]));
        for (const waiting of rounds) {
          const [first] = waiting.toSorted((a, b) => turns.rankOf(a, 0) - turns.rankOf(b, 0)) as [string];
          turns.served(first, 0);
          for (const line of waiting) passedOver.set(line, line === first ? 0 : (passedOver.get(line) ?? 0) + 1);
          expect(Math.max(...passedOver.values())).toBeLessThan(lines.length);
        }
      }),
    );
  });

  it('keep their turn for jobs of one priority when they are served for another', () => {
    const turns = turnsOf(['plain', 'fair'], ['fair']);
    turns.served('plain', 0);
    expect([turns.rankOf('fair', 0), turns.rankOf('plain', 0)]).toEqual([0, 1]);
    expect([turns.rankOf('plain', 1), turns.rankOf('fair', 1)]).toEqual([0, 1]);
  });

  it('keep their turn when a queue is added', () => {
    const turns = turnsOf(['plain', 'fair'], ['fair']);
    turns.served('plain', 0);
    turns.set(['plain', 'fair', 'new'], new Set(['fair', 'new']));
    expect(['fair', 'plain', 'new'].map((queue) => turns.rankOf(queue, 0))).toEqual([0, 1, 2]);
  });
});
