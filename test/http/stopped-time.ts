import { onTestFinished, vi } from 'vitest';

/** Stops the monotonic clock of this process until the test has finished. Meanwhile only the function that it returns moves it. */
export function stopTime(): (ms: number) => void {
  // Whole milliseconds, so that what has passed is exactly what was let pass.
  let nowMs = Math.ceil(performance.now());
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  onTestFinished(() => clock.mockRestore());
  return (ms) => {
    nowMs += ms;
  };
}
