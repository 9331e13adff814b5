import { once } from 'node:events';
import { Worker as Thread } from 'node:worker_threads';
import { afterEach, expect, it, vi } from 'vitest';
import { pulseMs, pulseSince } from '../../src/engine/work/pulse.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

/** What a thread of its own reads on the clock. */
async function readElsewhere(): Promise<number> {
  const pulse = new URL('../../src/engine/work/pulse.ts', import.meta.url).href;
  const thread = new Thread(
    `import('${pulse}').then(({ pulseMs }) => require('node:worker_threads').parentPort.postMessage(pulseMs()))`,
    { eval: true },
  );
  const [stampMs] = await once(thread, 'message');
  await thread.terminate();
  return stampMs;
}

it('a worker and its heartbeat thread count silence on one clock', async () => {
  const before = pulseMs();
  const stamp = await readElsewhere();
  const whole = pulseSince(before);
  // Of two clocks, the stamp of one lies years before or after the other's.
  expect(pulseSince(stamp)).toBeLessThanOrEqual(whole + 1);
});

it('a wall clock that is set changes nothing of it', () => {
  const stamp = pulseMs();
  const before = pulseSince(stamp);
  for (const setMs of [-3_600_000, 3_600_000]) {
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + setMs);
    expect(pulseSince(stamp)).toBeGreaterThanOrEqual(before);
    expect(pulseSince(stamp)).toBeLessThan(1_800_000);
  }
});
