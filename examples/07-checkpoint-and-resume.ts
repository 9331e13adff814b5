/**
 * Work that resumes where it stopped, even after `kill -9`. The handler stores its progress. This program starts a worker
 * process and kills it half-way. A second worker takes over the job, reads the progress and skips the finished rows. A row that was
 * imported right before a kill, without its checkpoint, is imported again: make that harmless, or use `assertOwned` (example 09).
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { import: { payload: { rows: number }; result: { rows: number } } };

async function work(queue: string): Promise<void> {
  const millrace = await Millrace.open<Jobs>({ queues: [queue] });
  millrace.register({
    type: 'import',
    handler: async (context, { rows }) => {
      const { next } = (await context.lastCheckpoint<{ next: number }>()) ?? { next: 0 };
      console.log(`attempt ${context.attempt} begins at row ${next}`);
      for (let row = next; row < rows; row++) {
        if (row === 6 && context.attempt === 1) await killed();
        process.send?.({ row }); // Your work: import the row.
        await context.checkpoint({ next: row + 1 });
      }
      return { rows };
    },
  });
  await millrace.start();
  process.once('SIGTERM', () => void millrace.close().then(() => process.disconnect?.()));
  process.once('disconnect', () => process.exit()); // Also when the other process is gone.
}

/** Asks to be killed and does nothing more. */
function killed(): Promise<never> {
  process.send?.('half-way');
  return new Promise(() => {});
}

async function run(): Promise<void> {
  // A separate queue, so that concurrent runs of this example do not affect each other.
  const queue = `example-${randomUUID()}`;
  const millrace = await Millrace.open<Jobs>();
  const imported: number[] = [];
  const startWorker = (): ChildProcess =>
    fork(import.meta.filename, [queue]).on('message', function (this: ChildProcess, message: { row: number } | 'half-way') {
      if (message === 'half-way') this.kill('SIGKILL');
      else imported.push(message.row);
    });

  const { jobId } = await millrace.submit({ type: 'import', payload: { rows: 10 }, queue });
  const [, signal] = await once(startWorker(), 'exit');
  console.log(`the first worker was ended by ${signal}`);
  const second = startWorker();
  const job = await millrace.waitFor(jobId, { timeout: '30s' });
  second.kill('SIGTERM');
  await once(second, 'disconnect');
  console.log(`${job.state}: rows ${imported.join(' ')}, each imported once: ${new Set(imported).size === imported.length}`);
  await millrace.close();
}

const [queue] = process.argv.slice(2);
await (queue === undefined ? run() : work(queue));
