import { expect, it } from 'vitest';
import { AppError } from '../../src/core/errors.ts';
import { FairTurns } from '../../src/core/fair-turns.ts';

const overflow = () => new AppError('QUOTA_EXCEEDED');

/** Work that goes on until it is told to end. */
function work() {
  const started = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const state = { isStarted: false, end: () => ended.resolve(), started: started.promise };
  const run = async () => {
    state.isStarted = true;
    started.resolve();
    await ended.promise;
  };
  return Object.assign(state, { run });
}

it('one holder leaves places for others, and waiters take turns between holders', async () => {
  const turns = new FairTurns({ limit: 4, part: 0.5, maxWaiting: 10, overflow });
  const greedy = Array.from({ length: 6 }, work);
  const all = greedy.map(({ run }) => turns.run('greedy', run));
  expect(greedy.map(({ isStarted }) => isStarted)).toEqual([true, true, false, false, false, false]);
  const others = Array.from({ length: 3 }, work);
  all.push(...others.map(({ run }, index) => turns.run(`other ${index}`, run)));
  expect(others.map(({ isStarted }) => isStarted)).toEqual([true, true, false]);
  greedy[0]?.end();
  await others[2]?.started;
  expect(greedy[2]?.isStarted).toBe(false);
  for (const { end } of [...greedy, ...others]) end();
  await Promise.all(all);
  expect(greedy.every(({ isStarted }) => isStarted)).toBe(true);
});

it('a holder runs one at a time where the options say so', async () => {
  const turns = new FairTurns({ limit: 4, part: 1, perHolder: 1, maxWaiting: 10, overflow });
  const [first, second] = [work(), work()];
  const both = [turns.run('one', first.run), turns.run('one', second.run)];
  expect([first.isStarted, second.isStarted]).toEqual([true, false]);
  first.end();
  await second.started;
  second.end();
  await Promise.all(both);
});

it('refuses a holder that has too many waiters, and no other', async () => {
  const turns = new FairTurns({ limit: 1, part: 1, maxWaiting: 1, overflow });
  const running = work();
  const all = [turns.run('one', running.run), turns.run('one', async () => {})];
  await expect(turns.run('one', async () => {})).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED' });
  all.push(turns.run('two', async () => {}));
  running.end();
  await Promise.all(all);
});

it('a waiter whose signal is aborted leaves, and is never run', async () => {
  const turns = new FairTurns({ limit: 1, part: 1, maxWaiting: 10, overflow });
  const running = work();
  const first = turns.run('one', running.run);
  const abort = new AbortController();
  const left = work();
  const waiting = turns.run('one', left.run, abort.signal);
  abort.abort(new Error('gone'));
  await expect(waiting).rejects.toThrow('gone');
  running.end();
  await first;
  await turns.run('one', async () => {});
  expect(left.isStarted).toBe(false);
});
