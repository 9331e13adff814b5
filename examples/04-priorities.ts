/**
 * Priorities. There are five levels, from CRITICAL to BULK. Within a level, jobs run in the order of submission. The jobs are submitted
 * before the worker starts and run one at a time, so that the order shows.
 */
import { randomUUID } from 'node:crypto';
import { Millrace, type Priority } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { task: { payload: { name: string } } };

// A separate queue, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue], concurrency: 1 });

const order: string[] = [];
millrace.register({
  type: 'task',
  handler: (_context, { name }) => {
    order.push(name);
  },
});

const wanted: [string, Priority][] = [
  ['archive', 'BULK'],
  ['thumbnail', 'NORMAL'],
  ['invoice', 'HIGH'],
  ['second thumbnail', 'NORMAL'],
  ['alarm', 'CRITICAL'],
];
const { results } = await millrace.submitMany(wanted.map(([name, priority]) => ({ type: 'task', payload: { name }, priority, queue })));

await millrace.start();
for (const { jobId } of results) if (jobId !== null) await millrace.waitFor(jobId, { timeout: '30s' });
console.log(`ran: ${order.join(', ')}`);
await millrace.close();
