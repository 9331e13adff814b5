import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { SEARCH_ORDERS, type SearchOrder } from '../../ledger/search/search-cursor.ts';
import type { Org } from '../../services/access/list-orgs.ts';
import type { JobView } from '../../services/jobs/read-job.ts';
import { type FoundJobs, type JobFilter, type SearchPage, searchJobViews } from '../../services/jobs/search-jobs.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { FILTER_OPTIONS, readFilter } from '../job-filter.ts';
import { readInteger, readWord } from '../option-values.ts';
import { checkOrgOptions, chosenOrgs, ORG_OPTIONS } from '../org-choice.ts';
import { textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const OPTIONS = {
  ...ORG_OPTIONS,
  ...FILTER_OPTIONS,
  limit: { type: 'string', value: 'N', help: 'the maximum number of jobs, up to 1000; default 50' },
  order: { type: 'string', value: 'ORDER', help: `${SEARCH_ORDERS.join(', ')}; default CREATED_DESC` },
  cursor: { type: 'string', value: 'CURSOR', help: 'continue a list of one org with the same filters and order' },
} as const;

export const jobsList = defineCommand({
  name: 'jobs list',
  summary: 'find jobs',
  options: OPTIONS,
  examples: [
    'millrace jobs list',
    'millrace jobs list --all-orgs --state failed,dead_letter --type email.send',
    'millrace jobs list --org acme --tag customer=42 --order UPDATED_DESC --json',
  ],
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, out } = invocation;
  checkOrgOptions(values);
  const isAll = values['all-orgs'] === true;
  if (isAll && values.cursor !== undefined) throw new UsageError('A cursor belongs to one org: give --org.', 'jobs list');
  const filter = readFilter(values);
  const page = {
    limit: readInteger(values.limit, 'limit') ?? 50,
    order: readWord(values.order, 'order', SEARCH_ORDERS),
    cursor: values.cursor,
  };
  const { found, slugs } = await withEngine(invocation, async (engine) => {
    const orgs = await chosenOrgs(engine, values);
    return { found: await searchOrgs(engine, orgs, { filter, page }), slugs: new Map(orgs.map(({ id, slug }) => [id, slug])) };
  });
  out.answer(found, () => {
    if (found.jobs.length === 0) return ['No job matches.'];
    const count = `${found.jobs.length} of ${found.totalIsEstimate ? 'about ' : ''}${found.totalCount}`;
    const head = [...(isAll ? ['org'] : []), 'id', 'state', 'type', 'queue', 'priority', 'attempt', 'created'];
    const rows = found.jobs.map((job) => [...(isAll ? [slugs.get(job.orgId) ?? ''] : []), ...rowOf(job)]);
    const rest = isAll ? 'More: narrow the filter, or list one org with --org.' : `Next page: --cursor ${found.nextCursor}`;
    return [...textTable(head, rows), '', count, ...(found.hasMore ? [rest] : [])];
  });
  return EXIT.ok;
}

/** The first jobs of all orgs in the given order. Only a page of one org can be continued. */
async function searchOrgs(
  engine: Engine,
  orgs: readonly Org[],
  { filter, page }: { filter: JobFilter; page: SearchPage & { limit: number } },
): Promise<FoundJobs<JobView>> {
  const pages: FoundJobs<JobView>[] = [];
  for (const { id } of orgs) pages.push(await searchJobViews(engine, { ...wholeOrg(id), filter, page }));
  if (orgs.length === 1 && pages[0] !== undefined) return pages[0];
  const jobs = pages.flatMap((each) => each.jobs).sort(ORDERS[page.order ?? 'CREATED_DESC']);
  return {
    jobs: jobs.slice(0, page.limit),
    totalCount: pages.reduce((sum, { totalCount }) => sum + totalCount, 0),
    totalIsEstimate: pages.some(({ totalIsEstimate }) => totalIsEstimate),
    nextCursor: null,
    hasMore: jobs.length > page.limit || pages.some(({ hasMore }) => hasMore),
  };
}

const ORDERS: Record<SearchOrder, (a: JobView, b: JobView) => number> = {
  CREATED_DESC: (a, b) => b.createdAt.getTime() - a.createdAt.getTime(),
  CREATED_ASC: (a, b) => a.createdAt.getTime() - b.createdAt.getTime(),
  UPDATED_DESC: (a, b) => b.updatedAt.getTime() - a.updatedAt.getTime(),
};

const rowOf = (job: JobView): string[] => [
  job.id,
  job.state,
  job.type,
  job.queue,
  job.priority,
  `${job.attempt}/${job.maxAttempts}`,
  job.createdAt.toISOString(),
];
