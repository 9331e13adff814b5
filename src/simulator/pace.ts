import { setTimeout as delay } from 'node:timers/promises';

/** Permission to submit one job. */
type Permit = {
  /** The planned time on the monotonic clock. A late start counts as latency. */
  readonly intendedMs: number;
  /** Call this when the job has ended. */
  done(): void;
};

export type Pace = AsyncGenerator<Permit, void>;

/** A fixed number of submissions per second, however slow the server is. */
export async function* openLoop(ratePerSecond: number, signal?: AbortSignal): Pace {
  const startedMs = performance.now();
  for (let no = 0; !signal?.aborted; no++) {
    const intendedMs = startedMs + (no * 1_000) / ratePerSecond;
    const aheadMs = intendedMs - performance.now();
    if (aheadMs >= 1) await delay(aheadMs, undefined, { signal }).catch(() => {});
    yield { intendedMs, done: () => {} };
  }
}

/** A fixed number of jobs in flight. */
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
