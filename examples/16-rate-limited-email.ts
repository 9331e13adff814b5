/**
 * Sixty emails through a provider that accepts five requests a second, and short bursts. It refuses more with 429. All jobs
 * with the key of the limit share it, in all processes. No job waits in a worker, and the provider refuses none.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Millrace, PostponeError } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { email: { payload: { to: string } } };
const EMAILS = 60;

// The provider. It has ten tokens and gets five new ones each second. A request takes one.
const sent = new Set<string>();
let tokens = 10;
let filledMs = performance.now();
let refused = 0;
const provider = createServer((request, response) => {
  const nowMs = performance.now();
  tokens = Math.min(10, tokens + (5 * (nowMs - filledMs)) / 1_000);
  filledMs = nowMs;
  if (tokens < 1) {
    refused++;
    response.writeHead(429).end();
  } else {
    tokens--;
    sent.add(request.url ?? '');
    response.writeHead(202).end();
  }
}).listen(0, '127.0.0.1');
await once(provider, 'listening');
const address = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;

// A separate queue and key, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue], concurrency: 20 });

millrace.register({
  type: 'email',
  limit: { key: queue, rate: 5, per: '1s' },
  handler: async (context, { to }) => {
    const response = await fetch(`${address}/${to}`, { method: 'POST', signal: context.signal });
    if (response.status === 429) throw new PostponeError({ retryAfter: '2s' }); // Uses up no attempt.
    if (!response.ok) throw new Error(`the provider returned ${response.status}`);
  },
});

await millrace.start();
const startedMs = performance.now();
const emails = Array.from({ length: EMAILS }, (_, n) => ({ type: 'email' as const, payload: { to: `user-${n}` }, queue }));
const { results } = await millrace.submitMany(emails);
const ended = await Promise.all(results.map(({ jobId }) => millrace.waitFor(jobId ?? '', { timeout: '2m' })));

const completed = ended.filter(({ state }) => state === 'completed').length;
console.log(`${EMAILS} submitted, ${completed} completed`);
console.log(`the provider: ${sent.size} sent, ${EMAILS - sent.size} lost, ${refused} refused`);
console.log(`it took at least 11 seconds: ${performance.now() - startedMs > 11_000}`);
await millrace.close();
provider.close();
