import { SEARCH_ORDERS } from '../../ledger/search/search-cursor.ts';
import type { JobView } from '../../services/jobs/read-job.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withMillrace } from '../connection.ts';
import { FILTER_OPTIONS, readFilter } from '../job-filter.ts';
import { readInteger, readWord } from '../option-values.ts';
import { textTable } from '../text-table.ts';

const OPTIONS = {
  ...FILTER_OPTIONS,
  limit: { type: 'string', value: 'N', help: 'the maximum number of jobs, up to 1000; default 50' },
  order: { type: 'string', value: 'ORDER', help: `${SEARCH_ORDERS.join(', ')}; default CREATED_DESC` },
  cursor: { type: 'string', value: 'CURSOR', help: 'continue a list with the same filters and order' },
} as const;

export const jobsList = defineCommand({
  name: 'jobs list',
  summary: 'find jobs',
  options: OPTIONS,
  examples: [
    'millrace jobs list',
    'millrace jobs list --state failed,dead_letter --type email.send',
    'millrace jobs list --tag customer=42 --order UPDATED_DESC --json',
  ],
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, out } = invocation;
  const filter = readFilter(values);
  const page = {
    limit: readInteger(values.limit, 'limit') ?? 50,
    order: readWord(values.order, 'order', SEARCH_ORDERS),
    cursor: values.cursor,
  };
  const found = await withMillrace(invocation, (millrace) => millrace.search(filter, page));
  out.answer(found, () => {
    if (found.jobs.length === 0) return ['No job matches.'];
    const count = `${found.jobs.length} of ${found.totalIsEstimate ? 'about ' : ''}${found.totalCount}`;
    const more = found.nextCursor === null ? [] : [`Next page: --cursor ${found.nextCursor}`];
    return [...textTable(['id', 'state', 'type', 'queue', 'priority', 'attempt', 'created'], found.jobs.map(rowOf)), '', count, ...more];
  });
  return EXIT.ok;
}

const rowOf = (job: JobView): string[] => [
  job.id,
  job.state,
  job.type,
  job.queue,
  job.priority,
  `${job.attempt}/${job.maxAttempts}`,
  job.createdAt.toISOString(),
];
