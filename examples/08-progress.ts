/**
 * Progress. The handler reports a percentage and a sentence. A read of the job shows the newest report, and listeners in
 * the worker's process get each one. A request to cancel reaches the handler at its next report.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { render: { payload: { frames: number } } };

// A separate queue, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue] });

millrace.register({
  type: 'render',
  handler: async (context, { frames }) => {
    for (let frame = 1; frame <= frames; frame++) {
      await sleep(20, undefined, { signal: context.signal });
      await context.reportProgress((100 * frame) / frames, `frame ${frame} of ${frames}`);
    }
  },
});
const stop = millrace.on('progress', ({ percent, message }) => console.log(`${percent} % (${message})`));

await millrace.start();
const short = await millrace.submit({ type: 'render', payload: { frames: 4 }, queue });
await millrace.waitFor(short.jobId, { timeout: '30s' });
console.log(`stored: ${(await millrace.get(short.jobId))?.progress?.percent} %`);
stop();

const long = await millrace.submit({ type: 'render', payload: { frames: 10_000 }, queue });
await new Promise<void>((resolve) => millrace.on('progress', () => resolve()));
await millrace.cancel(long.jobId, { reason: 'no longer needed' });
console.log(`the long one: ${(await millrace.waitFor(long.jobId, { timeout: '30s' })).state}`);
await millrace.close();
