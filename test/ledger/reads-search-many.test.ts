import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { PRIORITIES } from '../../src/core/priority.ts';
import { JOB_STATES } from '../../src/core/states.ts';
import { updateJob } from '../../src/ledger/jobs/update-job.ts';
import type { JobFilter } from '../../src/ledger/search/job-filter.ts';
import { SEARCH_ORDERS, type SearchOrder } from '../../src/ledger/search/search-cursor.ts';
import { searchJobs } from '../../src/ledger/search/search-jobs.ts';
import { everyMatch } from './every-match.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const JOBS = 30_000;
let orgId: string;
let oldestId: string;

// Finished long ago, with rare ones in every respect, as an ordinary ledger has them; live jobs come on top.
const FILL = `
WITH template AS (SELECT * FROM millrace.jobs WHERE org_id = $1 LIMIT 1), made AS (
  SELECT nextval('millrace.job_seq') AS seq, i, millrace.clock() - interval '3 days' * (1 - i / ${JOBS}.0) - interval '1 minute' AS created_at,
    CASE WHEN i % 9001 = 7 THEN 'rare' WHEN i % 20 = 0 THEN 'etl' ELSE 'mail' END AS job_type,
    CASE WHEN i % 7001 = 11 THEN 0 WHEN i % 10 = 0 THEN 1 ELSE 2 END AS priority,
    (CASE WHEN i % 8001 = 13 THEN 'dead_letter' WHEN i % 200 = 3 THEN 'failed' ELSE 'completed' END)::millrace.job_state AS state,
    CASE WHEN i % 6001 = 17 THEN '{"customer":"42","env":"prod"}'::jsonb WHEN i % 3 = 0 THEN '{"env":"prod"}'::jsonb END AS tags
  FROM generate_series(0, ${JOBS} - 1) i
), inserted AS (
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, completed_at, order_key, policy_id, state, priority,
    requested_priority, max_attempts, event_count, record_ids, queue, job_type, tags, payload)
  SELECT m.seq, t.org_id, gen_random_uuid(), m.created_at, m.created_at + (i % 977) * interval '1 second', m.created_at,
    m.created_at + (i % 977) * interval '1 second', m.seq, t.policy_id, m.state, m.priority, m.priority, 3, 2, ARRAY[1000000000 + 2 * m.seq, 1000000001 + 2 * m.seq], t.queue, m.job_type,
    m.tags, t.payload FROM made m, template t
)
INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, is_tagged, job_type, reason, seqs, ns, attempts)
SELECT 1000000000 + 2 * m.seq, m.created_at, $1, 'pending'::millrace.job_state, 'scheduled'::millrace.job_state, m.priority, m.tags IS NOT NULL,
  m.job_type, 'submitted', ARRAY[m.seq], NULL::int4[], NULL::int2[] FROM made m
UNION ALL SELECT 1000000001 + 2 * m.seq, m.created_at + (i % 977) * interval '1 second', $1, 'running', m.state, m.priority, false, m.job_type,
  CASE m.state WHEN 'completed' THEN 'succeeded' WHEN 'failed' THEN 'permanent_failure' WHEN 'dead_letter' THEN 'attempts_exhausted' ELSE 'cancelled' END,
  ARRAY[m.seq], '{2}', '{1}' FROM made m`;

beforeAll(async () => {
  ({ orgId, id: oldestId } = await ledger.submitOne());
  await ledger.db.maintenance.query(FILL, [orgId]);
  for (const state of JOB_STATES) await ledger.putJob(state, { orgId, job: { tags: { env: 'prod' } } });
  await ledger.project();
  // Not projected when the searches begin.
  for (const state of JOB_STATES) await ledger.putJob(state, { orgId, job: { tags: { customer: '42' } } });
  await ledger.moveClock(10_000);
}, 180_000);

async function walk(filter: JobFilter, order: SearchOrder): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  let pages = 0;
  do {
    const page = await searchJobs(ledger.db.api, wholeOrg(orgId), filter, { order, cursor, limit: 500 });
    expect(page.jobs.length).toBeLessThanOrEqual(500);
    ids.push(...page.jobs.map((job) => job.id));
    cursor = page.nextCursor;
    expect(++pages).toBeLessThan(200);
  } while (cursor !== null);
  return ids;
}

async function bruteForce(filter: JobFilter, order: SearchOrder): Promise<string[]> {
  return everyMatch(ledger.db.maintenance, orgId, { filter, order });
}

const some = <T>(values: readonly T[]) => fc.subarray([...values], { minLength: 1, maxLength: 3 });
const moment = fc.integer({ min: 0, max: 75 * 60 }).map((minutes) => new Date(Date.now() - minutes * 60_000));
const filters = fc.record(
  {
    types: some(['rare', 'etl', 'mail', 'unknown']),
    states: some(JOB_STATES),
    priorities: some(PRIORITIES),
    tags: fc.constantFrom<Record<string, string>>({ env: 'prod' }, { customer: '42' }, { env: 'prod', customer: '42' }, { env: '' }),
    createdAfter: moment,
    createdBefore: moment,
    updatedAfter: moment,
  },
  { requiredKeys: [] },
);

test('every search finds exactly what fits, in order, page by page [GA-2.35] [GA-2.43] [GA-2.45] [GA-2.48]', async () => {
  await fc.assert(
    fc.asyncProperty(filters, fc.constantFrom(...SEARCH_ORDERS), async (filter, order) => {
      expect(await walk(filter, order)).toEqual(await bruteForce(filter, order));
    }),
    { numRuns: 80 },
  );
}, 240_000);

test('a first page of few among many is full of them and their number exact [GA-2.46] [GA-2.47] [GA-2.49]', async () => {
  for (const order of SEARCH_ORDERS) {
    for (const filter of [{ types: ['rare'] }, { states: ['dead_letter'] }, { tags: { customer: '42' } }] as JobFilter[]) {
      const page = await searchJobs(ledger.db.api, wholeOrg(orgId), filter, { order });
      const ids = await bruteForce(filter, order);
      expect(page.jobs.map((job) => job.id)).toEqual(ids);
      expect(page).toMatchObject({ totalCount: ids.length, totalIsEstimate: false, hasMore: false });
    }
  }
});

test('what is changed of a job later is found too, behind any number of jobs [GA-2.36] [GA-2.38] [GA-2.39]', async () => {
  const recent = await ledger.submitOne({ orgId, type: 'first-name' });
  await ledger.project();
  for (const id of [oldestId, recent.id]) {
    const change = { type: 'second-name', priority: 4, tags: { team: 'blue' } };
    await updateJob(ledger.db.api, { projectId: null, orgId, id, change });
  }
  for (const filter of [{ types: ['second-name'] }, { tags: { team: 'blue' } }, { priorities: ['BULK'] }] as JobFilter[]) {
    const { jobs } = await searchJobs(ledger.db.api, wholeOrg(orgId), filter);
    expect(jobs.map((job) => job.id)).toEqual([recent.id, oldestId]);
  }
  expect((await searchJobs(ledger.db.api, wholeOrg(orgId), { types: ['first-name'] })).jobs).toEqual([]);
});
