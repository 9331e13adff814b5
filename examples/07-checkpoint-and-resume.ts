/**
 * Work that resumes where it stopped. The handler stores its progress. If it crashes half-way, the next attempt reads the
 * progress and skips the finished part.
 */
import { randomUUID } from 'node:crypto';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = { import: { payload: { rows: number }; result: { imported: number } } };

// A separate queue, so that concurrent runs of this example do not affect each other.
const queue = `example-${randomUUID()}`;
const millrace = await Millrace.open<Jobs>({ queues: [queue] });

let imports = 0;
millrace.register({
  type: 'import',
  backoff: { initialDelay: '100ms' },
  handler: async (context, { rows }) => {
    const done = await context.lastCheckpoint<{ row: number }>();
    const first = done === null ? 0 : done.row;
    console.log(`attempt ${context.attempt} begins at row ${first}`);
    for (let row = first; row < rows; row++) {
      if (row === 6 && context.attempt === 1) throw new Error('the connection broke');
      imports++;
      await context.checkpoint({ row: row + 1 });
    }
    return { imported: imports };
  },
});

await millrace.start();
const { jobId } = await millrace.submit({ type: 'import', payload: { rows: 10 }, queue });
const job = await millrace.waitFor(jobId, { timeout: '30s' });
console.log(`${job.state}: each of 10 rows imported once: ${imports === 10}`);
await millrace.close();
