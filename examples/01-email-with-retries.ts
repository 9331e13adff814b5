/**
 * An email that fails twice and arrives at the third attempt. When a handler throws, Millrace waits for the backoff and
 * tries again. A PermanentError marks an address that can never work, and ends the job without another attempt.
 */
import { randomUUID } from 'node:crypto';
import { Millrace, PermanentError, TemporaryError } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { email: { payload: { to: string }; result: { messageId: string } } };

// A separate queue, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue] });

millrace.register({
  type: 'email',
  maxAttempts: 5,
  backoff: { initialDelay: '100ms', multiplier: 2, jitter: false },
  handler: async (context, { to }) => {
    if (!to.includes('@')) throw new PermanentError(`${to} is not an address`, { code: 'BAD_ADDRESS' });
    if (context.attempt < 3) throw new TemporaryError('the mail server is busy', { code: 'BUSY' });
    return { messageId: `<${context.jobId}@example.com>` };
  },
});

millrace.on('failed', ({ attempt, state, failure, delayMs }) => {
  const next = delayMs === null ? 'gives up' : `tries again in ${delayMs} ms`;
  console.log(`attempt ${attempt}: ${failure.code}, ${next} (${state})`);
});

await millrace.start();
for (const to of ['ada@example.com', 'nowhere']) {
  const { jobId } = await millrace.submit({ type: 'email', payload: { to }, queue });
  const job = await millrace.waitFor(jobId, { timeout: '30s' });
  console.log(`${to}: ${job.state} after ${job.attempt} attempt(s)`);
}
await millrace.close();
