/** Searches while the rollup writer is far behind, and while jobs are being submitted: nothing is left out. */

import { describe, expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import type { JobFilter } from '../../src/ledger/search/job-filter.ts';
import { SEARCH_ORDERS, type SearchOrder } from '../../src/ledger/search/search-cursor.ts';
import { searchJobs } from '../../src/ledger/search/search-jobs.ts';
import { everyMatch } from './every-match.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const SLICE = 1_000;

// One transaction, one moment. With `$3` all jobs of a kind share a record, as in a flood; else each has its own.
const FILL = `
WITH template AS (SELECT * FROM millrace.jobs WHERE org_id = $1::uuid LIMIT 1), made AS MATERIALIZED (
  SELECT nextval('millrace.job_seq') AS seq, millrace.clock() - interval '1 hour' + $2::int4 * interval '1 second' AS at,
    CASE WHEN i = 7 THEN 'rare' ELSE 'mail' END AS job_type, CASE WHEN i = 11 THEN 0 ELSE 2 END AS priority,
    CASE WHEN i = 13 THEN '{"customer":"42"}'::jsonb END AS tags,
    (CASE WHEN i = 17 THEN 'failed' ELSE 'scheduled' END)::millrace.job_state AS state
  FROM generate_series(1, ${SLICE}) i
), inserted AS (
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, completed_at, order_key, policy_id, state, priority,
    requested_priority, max_attempts, event_count, record_ids, queue, job_type, tags, payload)
  SELECT m.seq, t.org_id, gen_random_uuid(), m.at, m.at, m.at, CASE WHEN m.state = 'failed' THEN m.at END, m.seq, t.policy_id, m.state,
    m.priority, m.priority, 3, 1, ARRAY[1000000000 + m.seq], t.queue, m.job_type, m.tags, t.payload FROM made m, template t
)
INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, is_tagged, job_type, reason, seqs)
SELECT 1000000000 + min(seq), at, $1::uuid, 'pending', state, priority, tags IS NOT NULL, job_type,
  CASE state WHEN 'failed' THEN 'dependency_failed' ELSE 'submitted' END, array_agg(seq) FROM made
GROUP BY at, state, priority, tags IS NOT NULL, job_type, CASE WHEN $3::boolean THEN 0 ELSE seq END`;

async function filledOrg({ slices, isFlood }: { slices: number; isFlood: boolean }): Promise<string> {
  const { orgId } = await ledger.submitOne();
  // The first is the oldest.
  const earlier = `- interval '2 hours' WHERE org_id = $1`;
  await ledger.db.maintenance.query(`UPDATE millrace.jobs SET updated_at = updated_at ${earlier}`, [orgId]);
  await ledger.db.maintenance.query(`UPDATE millrace.records SET at = at ${earlier}`, [orgId]);
  for (let slice = 0; slice < slices; slice++) await ledger.db.maintenance.query(FILL, [orgId, slice, isFlood]);
  return orgId;
}

async function walk(orgId: string, filter: JobFilter, order: SearchOrder): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  let pages = 0;
  do {
    const page = await searchJobs(ledger.db.api, wholeOrg(orgId), filter, { order, cursor, limit: 1_000, total: false });
    ids.push(...page.jobs.map((job) => job.id));
    cursor = page.nextCursor;
    expect(++pages).toBeLessThan(100);
  } while (cursor !== null);
  return ids;
}

const allOf = (orgId: string, filter: JobFilter, order: SearchOrder): Promise<string[]> =>
  everyMatch(ledger.db.maintenance, orgId, { filter, order });

const FILTERS: readonly JobFilter[] = [
  {},
  { types: ['rare'] },
  { types: ['none'] },
  { priorities: ['CRITICAL'] },
  { tags: { customer: '42' } },
  { states: ['failed'] },
  { types: ['mail'], states: ['failed'] },
  { updatedAfter: new Date(Date.now() - 3_595_000) },
];

describe('while nothing is projected', () => {
  test.each([
    ['a flood of few records', { slices: 15, isFlood: true }],
    ['more records than are read', { slices: 22, isFlood: false }],
  ])(
    'every search over %s finds all there is [GA-2.35] [GA-2.36] [GA-2.37] [GA-2.38]',
    async (_what, shape) => {
      const orgId = await filledOrg(shape);
      for (const order of SEARCH_ORDERS) {
        for (const filter of FILTERS) {
          const found = await walk(orgId, filter, order);
          const expected = await allOf(orgId, filter, order);
          expect([order, filter, found.length]).toEqual([order, filter, expected.length]);
          expect(found).toEqual(expected);
        }
      }
    },
    180_000,
  );

  test('what changed last is on the first page, however much changed before it [GA-2.45]', async () => {
    const orgId = await filledOrg({ slices: 12, isFlood: true });
    const { id } = await ledger.submitOne({ orgId });
    const { jobs } = await searchJobs(ledger.db.api, wholeOrg(orgId), {}, { order: 'UPDATED_DESC', limit: 1 });
    expect(jobs.map((job) => job.id)).toEqual([id]);
  });
});

describe('in ascending order', () => {
  test('jobs are found the moment they were submitted, when nobody else is at it [GA-2.45]', async () => {
    const { orgId, id } = await ledger.submitOne();
    const ids = [id];
    for (let n = 0; n < 6; n++) ids.push((await ledger.submitOne({ orgId })).id);
    const pages: string[][] = [];
    let cursor: string | null = null;
    do {
      const page = await searchJobs(ledger.db.api, wholeOrg(orgId), {}, { order: 'CREATED_ASC', limit: 3, cursor });
      pages.push(page.jobs.map((job) => job.id));
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(pages).toEqual([ids.slice(0, 3), ids.slice(3, 6), ids.slice(6)]);
  });

  test('a page without a job does not pass by one that commits late [GA-2.43]', async () => {
    const { orgId } = await ledger.submitOne();
    const slow = await ledger.db.workers.connect();
    const completed: JobFilter = { states: ['completed'] };
    try {
      await slow.query('BEGIN');
      const late = await ledger.toWrite(orgId);
      await submitJobs(slow, [late]);
      await slow.query(`UPDATE millrace.jobs SET state = 'completed', completed_at = millrace.clock() WHERE org_id = $1 AND id = $2`, [
        orgId,
        late.id,
      ]);
      for (let slice = 0; slice < 9; slice++) await ledger.db.maintenance.query(FILL, [orgId, 3_600, true]);
      const page = { order: 'CREATED_ASC', limit: 3, total: false } as const;
      const first = await searchJobs(ledger.db.api, wholeOrg(orgId), completed, page);
      expect(first).toMatchObject({ jobs: [], hasMore: true });
      await slow.query('COMMIT');
      const second = await searchJobs(ledger.db.api, wholeOrg(orgId), completed, { ...page, cursor: first.nextCursor });
      expect(second.jobs.map((job) => job.id)).toEqual([late.id]);
    } finally {
      slow.release(true);
    }
  });
});
