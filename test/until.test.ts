import { expect, it, onTestFinished, vi } from 'vitest';
import { inTime, until } from './until.ts';

/** Each look at the clock finds it 25 seconds later. */
function hurryClock(): void {
  let nowMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => {
    nowMs += 25_000;
    return nowMs;
  });
  onTestFinished(() => clock.mockRestore());
}

it('a wait that ends in vain says what it waited for and what it saw last', async () => {
  hurryClock();
  const states = ['scheduled', 'running'];
  const waiting = until('the job has ended', () => states.shift() ?? 'running', 'completed');
  await expect(waiting).rejects.toThrow("Waited in vain until the job has ended. Last seen: 'running'");
});

it.each([
  ['true', () => until('it is so', async () => true)],
  ['an equal value', () => until('both are there', () => ['a', 'b'], ['a', 'b'])],
  [
    'a value that the function accepts',
    () =>
      until(
        'there is one',
        () => 1,
        (count) => count > 0,
      ),
  ],
])('a wait ends at once when it sees %s', async (_, wait) => {
  hurryClock();
  await wait();
});

it('a signal that fails is passed on', async () => {
  await expect(inTime('it is there', Promise.reject(new Error('broken')), () => '')).rejects.toThrow('broken');
});
