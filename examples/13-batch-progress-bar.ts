/**
 * A batch with a true progress bar. 50 000 jobs are submitted from a generator, in pieces, so the program never has all of them in memory.
 * The bar shows exact counts of the ledger. Any other process could open the batch by its id and draw the same bar.
 */
import { randomUUID } from 'node:crypto';
import { type BatchProgress, Millrace, PermanentError } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { resize: { payload: { image: number } } };

const total = Number(process.env.JOBS ?? 50_000);
// A separate queue, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue], concurrency: 50 });

millrace.register({
  type: 'resize',
  handler: (context, { image }) => {
    if (image % 500 !== 499) return;
    context.log('warn', 'cannot be resized', { image });
    throw new PermanentError(`image ${image} is broken`, { code: 'BROKEN_IMAGE' });
  },
});
await millrace.start();

function* images() {
  for (let image = 0; image < total; image++) yield { type: 'resize', payload: { image }, queue } as const;
}

const batch = await millrace.batches.submit(images());
console.log(`submitted ${total} jobs`);

let last = 0;
let isSteady = true;
const outcome = await batch.wait({
  onProgress: (progress) => {
    isSteady &&= endedOf(progress) >= last;
    last = endedOf(progress);
    if (process.stdout.isTTY) process.stdout.write(`\r${barOf(progress)}`);
  },
});
if (process.stdout.isTTY) process.stdout.write('\n');
console.log(`the bar never went back: ${isSteady}`);
console.log(`completed ${outcome.completed}, failed ${outcome.failed} of ${outcome.total}`);

const [first] = outcome.failedIds;
const page = first === undefined ? null : await millrace.logs(first);
for (const { level, message, fields } of page?.lines ?? [])
  console.log(`the first failure logged: ${level} ${message} ${JSON.stringify(fields)}`);
await millrace.close();

function endedOf({ completed, failed, cancelled }: BatchProgress): number {
  return completed + failed + cancelled;
}

function barOf(progress: BatchProgress): string {
  const share = endedOf(progress) / progress.total;
  const bar = '#'.repeat(Math.round(40 * share)).padEnd(40, '.');
  return `[${bar}] ${(100 * share).toFixed(1)} %  ${progress.completed} completed, ${progress.failed} failed, ${progress.running} running `;
}
