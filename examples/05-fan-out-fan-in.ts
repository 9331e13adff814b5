/**
 * One job that spawns many and completes after them. The handler spawns a child per page with `join`. The parent
 * completes when every child has ended. Then a job that depends on the parent reads their results and adds them up.
 */
import { randomUUID } from 'node:crypto';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = {
  book: { payload: { pages: number[] } };
  page: { payload: { words: number }; result: number };
  total: { payload: { bookId: string }; result: number };
};

// A separate queue, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue] });

millrace.register({ type: 'page', handler: (_context, { words }) => words });
millrace.register({
  type: 'book',
  handler: async (context, { pages }) => {
    for (const [number, words] of pages.entries()) {
      // With a key, a second attempt finds the children of the first instead of spawning them again.
      const idempotencyKey = `${context.jobId}:${number}`;
      await context.spawn({ type: 'page', payload: { words }, queue, idempotencyKey }, { join: true });
    }
  },
});
millrace.register({
  type: 'total',
  handler: async (context, { bookId }) => {
    const pages = await context.results<number>({ childrenOf: bookId });
    console.log(`pages: ${pages.map((page) => page.state).join(', ')}`);
    return pages.reduce((sum, page) => sum + (page.result ?? 0), 0);
  },
});

await millrace.start();
const book = await millrace.submit({ type: 'book', payload: { pages: [250, 300, 275] }, queue });
const total = await millrace.submit({ type: 'total', payload: { bookId: book.jobId }, dependsOn: [book.jobId], queue });
const done = await millrace.waitFor(total.jobId, { timeout: '30s' });
console.log(`words in the book: ${done.result?.output}`);
await millrace.close();
