/**
 * A deployment stops a worker with SIGTERM. `npx millrace work` then claims no more jobs, lets the running job finish and exits
 * with code 0. The job that waits stays in the database, and the next worker runs it. This file is also the module of handlers.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

/** `millrace work` calls this. */
export function register(millrace: Millrace): void {
  millrace.register({
    type: 'invoice',
    handler: async (_context, { number }: { number: number }) => {
      console.log(`invoice ${number} begins`);
      await sleep(number === 1 ? 6_000 : 100); // Your work: the first invoice takes long.
      return `invoice ${number} is written`;
    },
  });
}

/** In a shell: npx millrace work ./19-worker-under-sigterm.ts --queues QUEUE */
function startWorker(queue: string): ChildProcess {
  const program = fileURLToPath(new URL('../bin/millrace.js', import.meta.url));
  const args = ['work', import.meta.filename, '--queues', queue, '--concurrency', '1', '--grace', '30s'];
  return spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
}

async function printed(worker: ChildProcess, text: string): Promise<void> {
  let output = '';
  for await (const chunk of worker.stdout?.iterator({ destroyOnReturn: false }) ?? []) {
    output += chunk;
    if (output.includes(text)) break;
  }
  worker.stdout?.resume(); // Go on reading, so that the worker never waits for its output to be read.
}

async function deploy(): Promise<void> {
  // A separate queue, so that concurrent runs of this example do not affect each other.
  const queue = `example-${randomUUID()}`;
  const millrace = await Millrace.open();
  const jobs = [1, 2].map((number) => ({ type: 'invoice', payload: { number }, queue }));
  const { results } = await millrace.submitMany(jobs);
  const [first = '', second = ''] = results.map(({ jobId }) => jobId ?? '');

  const old = startWorker(queue);
  await printed(old, 'invoice 1 begins');
  old.kill('SIGTERM');
  const [code] = await once(old, 'exit');
  console.log(`the first worker: stopped by SIGTERM while invoice 1 ran, exit code ${code}`);
  const states = await Promise.all([first, second].map(async (id) => (await millrace.get(id))?.state));
  console.log(`invoice 1: ${states[0]}, invoice 2: ${states[1]}`);

  const next = startWorker(queue);
  const job = await millrace.waitFor(second, { timeout: '1m' });
  console.log(`the next worker: ${job.result?.output}`);
  next.kill('SIGTERM');
  console.log(`the next worker: exit code ${(await once(next, 'exit'))[0]}`);
  await millrace.close();
}

if (process.argv[1] === import.meta.filename) await deploy();
