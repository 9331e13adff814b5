import { Millrace } from '../src/index.ts';

const payload = (i: number) => ({ i, to: 'someone@example.com', template: 'welcome', at: Date.now() });

/** Between the two in the middle when their number is even. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

export const percentile = (values: readonly number[], share: number): number => {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
};

async function perSecond(count: number, work: () => Promise<void>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return Math.round((count / (performance.now() - startedMs)) * 1_000);
}

/** Submits single jobs from 64 callers. Each waits for its result before the next submit. */
export function submitSingles(millrace: Millrace, count: number): Promise<number> {
  let next = 0;
  const caller = async () => {
    while (next < count) await millrace.submit({ type: 'noop', payload: payload(next++) });
  };
  return perSecond(count, async () => {
    await Promise.all(Array.from({ length: 64 }, caller));
  });
}

export function submitBatches(millrace: Millrace, batches: number): Promise<number> {
  return perSecond(batches * 1_000, async () => {
    for (let batch = 0; batch < batches; batch++) {
      await millrace.submitMany(Array.from({ length: 1_000 }, (_, i) => ({ type: 'noop', payload: payload(i) })));
    }
  });
}

/** Runs no-op jobs, 64 at once, until `count` have been completed. Then it stops. */
export async function drain(url: string, count: number): Promise<number> {
  const millrace = await Millrace.open({ database: url, concurrency: 64 });
  let done = 0;
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  millrace.register({ type: 'noop', handler: () => {} });
  millrace.on('completed', () => {
    if (++done === count) finish();
  });
  const rate = await perSecond(count, async () => {
    await millrace.start();
    await finished;
  });
  await millrace.close({ grace: '5s' });
  return rate;
}

/** Milliseconds from just before a submit to the handler, on an idle queue, one job every 20 ms. */
export async function pickups(url: string, probes: number): Promise<number[]> {
  const millrace = await Millrace.open({ database: url, concurrency: 64 });
  const waits: number[] = [];
  millrace.register({
    type: 'probe',
    handler: (_context, { sentMs }: { sentMs: number }) => void waits.push(performance.now() - sentMs),
  });
  await millrace.start();
  for (let i = 0; i < probes; i++) {
    await millrace.submit({ type: 'probe', payload: { sentMs: performance.now() } });
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await millrace.close({ grace: '5s' });
  return waits;
}

/** How late delayed jobs start, in milliseconds. A negative number means early. */
export async function delays(url: string, probes: number): Promise<number[]> {
  const millrace = await Millrace.open({ database: url, concurrency: 64 });
  const lateness: number[] = [];
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  millrace.register({
    type: 'late',
    handler: (_context, { dueMs }: { dueMs: number }) => {
      lateness.push(Date.now() - dueMs);
      if (lateness.length === probes) finish();
    },
  });
  await millrace.start();
  for (let i = 0; i < probes; i++) {
    const dueMs = Date.now() + 500 + i * 10;
    await millrace.submit({ type: 'late', payload: { dueMs }, scheduledAt: new Date(dueMs) });
  }
  await finished;
  await millrace.close({ grace: '5s' });
  return lateness;
}
