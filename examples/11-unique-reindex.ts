/**
 * Only the newest version of a document is indexed, and no change is lost. While a job for the document waits, a newer submission
 * replaces it. Once the job has started, a newer submission gets its own job, because the running one may have read the old version.
 * The limit lets them run one after the other, so that an old version never overwrites a newer one.
 */
import { randomUUID } from 'node:crypto';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { index: { payload: { version: number }; result: null } };

// A separate queue, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue] });

const submit = async (version: number) => {
  const key = `${queue} document-42`;
  const result = await millrace.submit({
    ...{ type: 'index', payload: { version }, queue },
    unique: { key, until: 'started', onConflict: 'replace' },
    limit: { key, concurrency: 1 },
  });
  const isReplacing = result.status === 'ACCEPTED' && result.replacedJobId !== undefined;
  console.log(`version ${version}: ${isReplacing ? 'replaces the job that waits' : 'a new job'}`);
  return result.jobId;
};

// The handler reports that it has begun, and then indexes until it may end.
const begun = Promise.withResolvers<void>();
const released = Promise.withResolvers<void>();
millrace.register({
  type: 'index',
  handler: async (_context, { version }) => {
    console.log(`indexing version ${version}`);
    begun.resolve();
    await released.promise;
    return null;
  },
});

await submit(1);
await submit(2);
const first = await submit(3);
await millrace.start();
await begun.promise;
await submit(4);
const last = await submit(5);
released.resolve();
await millrace.waitFor(first, { timeout: '30s' });
await millrace.waitFor(last, { timeout: '30s' });
await millrace.close();
