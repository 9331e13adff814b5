/**
 * How far is it? The handler reports a percentage and a sentence; anyone who reads the job sees the newest, and listeners in
 * the worker's process hear each one. A request to cancel reaches the handler with its next report.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { render: { payload: { frames: number } } };

// A queue of its own, so that runs of this example side by side leave each other alone.
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
await millrace.cancel(long.jobId, { reason: 'nobody watches' });
console.log(`the long one: ${(await millrace.waitFor(long.jobId, { timeout: '30s' })).state}`);
await millrace.close();
