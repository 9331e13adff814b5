/**
 * One job with a delay, and one for a point in time. Both are accepted and durable at once. No process has to run until
 * they are due.
 */
import { randomUUID } from 'node:crypto';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { remind: { payload: { text: string }; result: string } };

// A separate queue, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue] });

millrace.register({
  type: 'remind',
  handler: (_context, { text }) => `reminded ${text}`,
});
await millrace.start();

const later = await millrace.submit({ type: 'remind', payload: { text: 'after a while' }, delay: '300ms', queue });
const scheduledAt = new Date(Date.now() + 3_000);
const at = await millrace.submit({ type: 'remind', payload: { text: 'on time' }, scheduledAt, queue });
console.log(`accepted: ${later.state}, ${at.state}`);

for (const { jobId } of [later, at]) {
  const job = await millrace.waitFor(jobId, { timeout: '30s' });
  const onTime = job.startedAt !== null && job.scheduledFor !== null && job.startedAt >= job.scheduledFor;
  console.log(`${job.result?.output}, not too early: ${onTime}`);
}
await millrace.close();
