import { once } from 'node:events';
import { Worker as Thread } from 'node:worker_threads';
import { afterEach, expect, it, vi } from 'vitest';
import { sharedClockMs, sinceMs } from '../../src/engine/work/thread-memory.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

/** What a thread of its own reads on the clock. */
async function readElsewhere(): Promise<number> {
  const memory = new URL('../../src/engine/work/thread-memory.ts', import.meta.url).href;
  const thread = new Thread(
    `import('${memory}').then(({ sharedClockMs }) => require('node:worker_threads').parentPort.postMessage(sharedClockMs()))`,
    { eval: true },
  );
  const [stampMs] = await once(thread, 'message');
  await thread.terminate();
  return stampMs;
}

it('a worker and its heartbeat thread count silence on one clock', async () => {
  const before = sharedClockMs();
  const stamp = await readElsewhere();
  // In this order: a pause between the two lines makes only the second number larger.
  const since = sinceMs(stamp);
  const whole = sinceMs(before);
  // Of two clocks, the stamp of one lies years before or after the other's.
  expect(since).toBeLessThanOrEqual(whole + 1);
});

it('a wall clock that is set changes nothing of it', () => {
  const stamp = sharedClockMs();
  const before = sinceMs(stamp);
  for (const setMs of [-3_600_000, 3_600_000]) {
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + setMs);
    expect(sinceMs(stamp)).toBeGreaterThanOrEqual(before);
    expect(sinceMs(stamp)).toBeLessThan(1_800_000);
  }
});
