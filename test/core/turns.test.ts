import { expect, it } from 'vitest';
import { nextTurn, Turns } from '../../src/core/turns.ts';

it('long work gives way each time the work of a turn is done', async () => {
  const turns = new Turns(10);
  const spent = Array.from({ length: 9 }, () => turns.spend(4));
  await Promise.all(spent);
  expect(spent.map((turn) => turn !== undefined)).toEqual([false, false, true, false, false, true, false, false, true]);
});

it('work of many callers takes one turn each, and the event loop serves others in between', async () => {
  const order: string[] = [];
  const other = (name: string) => setImmediate(() => order.push(name));
  const first = nextTurn().then(() => {
    order.push('first');
    other('other after first');
  });
  const second = nextTurn().then(() => order.push('second'));
  other('other');
  await Promise.all([first, second]);
  expect(order).toEqual(['first', 'other', 'second']);
  await nextTurn();
  expect(order).toContain('other after first');
});
