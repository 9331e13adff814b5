import { setTimeout as delay } from 'node:timers/promises';

/** Leave to submit one job. */
type Permit = {
  /** When it should have been submitted, on the monotonic clock: what a late start cost counts as latency. */
  readonly intendedMs: number;
  /** Called when the job is no longer under way. */
  done(): void;
};

export type Pace = AsyncGenerator<Permit, void>;

/** So many a second, however slowly they are answered. */
export async function* openLoop(ratePerSecond: number, signal?: AbortSignal): Pace {
  const startedMs = performance.now();
  for (let no = 0; !signal?.aborted; no++) {
    const intendedMs = startedMs + (no * 1_000) / ratePerSecond;
    const aheadMs = intendedMs - performance.now();
    if (aheadMs >= 1) await delay(aheadMs, undefined, { signal }).catch(() => {});
    yield { intendedMs, done: () => {} };
  }
}

/** So many under way at once. */
export async function* closedLoop(concurrency: number, signal?: AbortSignal): Pace {
  let underWay = 0;
  let wake = () => {};
  const done = () => {
    underWay--;
    wake();
  };
  signal?.addEventListener('abort', () => wake(), { once: true });
  while (!signal?.aborted) {
    if (underWay >= concurrency) {
      const free = Promise.withResolvers<void>();
      wake = free.resolve;
      await free.promise;
      continue;
    }
    underWay++;
    yield { intendedMs: performance.now(), done };
  }
}
