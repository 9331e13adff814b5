/**
 * One job at a time for each customer, and many customers at the same time. The key of the limit contains the customer of
 * the payload. Jobs of one customer run one after the other, in the order of submission. A customer with many jobs delays no other.
 * Give it a size: `npx node examples/17-one-at-a-time-per-customer.ts 1000 100`.
 */
import { randomUUID } from 'node:crypto';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { sync: { payload: { customer: number; step: number } } };
const [customers = 50, steps = 10] = process.argv.slice(2).map(Number);
const total = customers * steps;

// A separate queue and key, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue], concurrency: 50 });

const running = new Set<number>();
const nextStep = new Map<number, number>();
let overlaps = 0;
let outOfOrder = 0;
let most = 0;
let done = 0;
const allDone = Promise.withResolvers<void>();

millrace.register({
  type: 'sync',
  limit: { key: `${queue} {payload.customer}`, concurrency: 1 },
  handler: async (_context, { customer, step }) => {
    if (running.has(customer)) overlaps++;
    running.add(customer);
    most = Math.max(most, running.size);
    if (step !== (nextStep.get(customer) ?? 0)) outOfOrder++;
    nextStep.set(customer, step + 1);
    await new Promise(setImmediate); // Your work: a call of the customer's system.
    running.delete(customer);
  },
});
millrace.on('completed', () => {
  if (++done === total) allDone.resolve();
});

// The first customer's jobs come first, then the second customer's, and so on.
const all = Array.from({ length: total }, (_, n) => ({ customer: Math.floor(n / steps), step: n % steps }));
for (let first = 0; first < total; first += 1_000) {
  await millrace.submitMany(all.slice(first, first + 1_000).map((payload) => ({ type: 'sync', payload, queue })));
}

const startedMs = performance.now();
await millrace.start();
await allDone.promise;
const seconds = (performance.now() - startedMs) / 1_000;

console.log(`${customers} customers, ${steps} jobs each: ${done} completed`);
console.log(`at the same time for one customer: ${overlaps}, out of order: ${outOfOrder}`);
console.log(`several customers at the same time: ${most > 1}`);
if (process.argv.length > 2) console.log(`${Math.round(total / seconds)} jobs a second`);
await millrace.close();
