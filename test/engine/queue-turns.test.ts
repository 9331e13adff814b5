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

  it('are two if some queues are fair: all of these form one', () => {
    const turns = turnsOf(['plain', 'f1', 'other', 'f2'], ['f1', 'f2']);
    expect(turns.lines).toBe(2);
    turns.served('f1', 0);
    expect(['plain', 'other', 'f1', 'f2'].map((queue) => turns.rankOf(queue, 0))).toEqual([0, 0, 1, 1]);
  });

  it('come first in turn: a line that waits is passed over at most once', () => {
    const queues = ['plain', 'other', 'f1', 'f2'];
    fc.assert(
      fc.property(fc.array(fc.subarray(queues, { minLength: 1 }), { maxLength: 60 }), (rounds) => {
        const turns = turnsOf(queues, ['f1', 'f2']);
        const lineOf = (queue: string) => (queue.startsWith('f') ? 'by org' : 'by submission');
        const passedOver = new Map([
          ['by org', 0],
          ['by submission', 0],
        ]);
        for (const waiting of rounds) {
          const [first] = waiting.toSorted((a, b) => turns.rankOf(a, 0) - turns.rankOf(b, 0)) as [string];
          turns.served(first, 0);
          for (const line of new Set(waiting.map(lineOf)))
            passedOver.set(line, line === lineOf(first) ? 0 : (passedOver.get(line) ?? 0) + 1);
          expect(Math.max(...passedOver.values())).toBeLessThan(2);
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
    expect(['fair', 'plain', 'new'].map((queue) => turns.rankOf(queue, 0))).toEqual([0, 1, 0]);
  });
});
