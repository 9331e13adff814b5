/**
 * Cancel a running job from another process. This program is the one that submits and cancels. It starts itself again as a
 * worker. The processes share only the database. The request aborts `context.signal`, so `fetch`, timers and `pg` queries that
 * take a signal stop at once.
 */
import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { JobCancelledError, Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { export: { payload: { table: string } } };

async function work(queue: string): Promise<void> {
  const millrace = await Millrace.open<Jobs>({ queues: [queue] });
  millrace.register({
    type: 'export',
    handler: async (context, { table }) => {
      process.send?.('running');
      try {
        await sleep(600_000, undefined, { signal: context.signal }); // Your work: ten minutes long.
      } catch (error) {
        const isCancelled = context.signal.reason instanceof JobCancelledError;
        console.log(`worker: the signal stopped the export of ${table}, cancelled: ${isCancelled}`);
        throw error;
      }
    },
  });
  await millrace.start();
  process.once('SIGTERM', () => void millrace.close().then(() => process.disconnect?.()));
  process.once('disconnect', () => process.exit()); // Also when the other process is gone.
}

async function cancel(): Promise<void> {
  // A separate queue, so that concurrent runs of this example do not affect each other.
  const queue = `example-${randomUUID()}`;
  const millrace = await Millrace.open<Jobs>();
  const worker = fork(import.meta.filename, [queue]);
  const { jobId } = await millrace.submit({ type: 'export', payload: { table: 'orders' }, queue });
  await once(worker, 'message');
  console.log('submitter: the job runs in another process');

  const { status } = await millrace.cancel(jobId, { reason: 'the customer closed the page' });
  const job = await millrace.waitFor(jobId, { timeout: '30s' });
  console.log(`submitter: ${status}, and now the job is ${job.state}`);

  worker.kill('SIGTERM');
  const [code] = await once(worker, 'exit');
  console.log(`the worker ended with code ${code}`);
  await millrace.close();
}

const [queue] = process.argv.slice(2);
await (queue === undefined ? cancel() : work(queue));
