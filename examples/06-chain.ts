/**
 * Steps in sequence. Each job depends on the previous one. With CHAIN, a failure stops the rest. All jobs are submitted
 * at once and wait in the database, not in a process.
 */
import { randomUUID } from 'node:crypto';
import { Millrace, PermanentError } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { step: { payload: { name: string; breaks?: boolean } } };

// A separate queue, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue] });

millrace.register({
  type: 'step',
  handler: (_context, { name, breaks }) => {
    if (breaks) throw new PermanentError(`${name} cannot be done`);
    console.log(`did ${name}`);
  },
});
await millrace.start();

async function chain(steps: Jobs['step']['payload'][]): Promise<string> {
  const ids: string[] = [];
  for (const payload of steps) {
    const dependsOn = ids.slice(-1);
    const { jobId } = await millrace.submit({ type: 'step', payload, dependsOn, dependencyType: 'CHAIN', queue });
    ids.push(jobId);
  }
  const ended = await Promise.all(ids.map((id) => millrace.waitFor(id, { timeout: '30s' })));
  return ended.map((job) => job.state).join(' > ');
}

console.log(await chain([{ name: 'download' }, { name: 'convert' }, { name: 'publish' }]));
console.log(await chain([{ name: 'fetch' }, { name: 'parse', breaks: true }, { name: 'store' }]));
await millrace.close();
