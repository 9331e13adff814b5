import { describe, expect, it, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { searchFailures, tallyFailures } from '../../src/ledger/search/search-failures.ts';
import { dropPartitions } from './drop-partitions.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

async function orgWithFailures(count: number): Promise<{ orgId: string; ids: string[] }> {
  const orgId = await ledger.newOrg();
  const ids: string[] = [];
  for (let made = 0; made < count; made++) ids.push((await ledger.putJob('failed', { orgId, type: `type-${made}` })).id);
  return { orgId, ids: ids.toReversed() };
}

describe('a search of failures', () => {
  it('looks at a limited number, and continues where it stopped', async () => {
    const { orgId, ids } = await orgWithFailures(7);
    const pages: string[][] = [];
    let cursor: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof searchFailures>> = await searchFailures(ledger.db.api, wholeOrg(orgId), {
        ...{ filter: { types: ['type-0', 'type-6'] }, limit: 5, cursor, maxLooked: 3 },
      });
      pages.push(page.failures.map(({ jobId }) => jobId));
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(pages).toEqual([[ids[0]], [], [ids[6]]]);
  });

  it('says when there are more failures than it counted', async () => {
    const { orgId } = await orgWithFailures(4);
    const filter = { types: ['type-3', 'type-0'] };
    expect(await tallyFailures(ledger.db.api, wholeOrg(orgId), { filter, maxLooked: 4 })).toEqual({
      ...{ totalCount: 2, totalIsEstimate: false, byCategory: { TEMPORARY: 2 }, byCode: { BOOM: 2 } },
      byType: { 'type-3': 1, 'type-0': 1 },
    });
    expect(await tallyFailures(ledger.db.api, wholeOrg(orgId), { filter, maxLooked: 3 })).toMatchObject({
      ...{ totalCount: 1, totalIsEstimate: true, byType: { 'type-3': 1 } },
    });
  });

  it('leaves out a failure that another attempt has superseded', async () => {
    const orgId = await ledger.newOrg();
    const job = await ledger.putJob('retrying', { orgId });
    const found = () => searchFailures(ledger.db.api, wholeOrg(orgId), { filter: {}, limit: 5, cursor: null });
    expect((await found()).failures).toMatchObject([{ jobId: job.id, state: 'retrying', totalAttempts: 1 }]);
    await ledger.db.api.query(`UPDATE millrace.jobs SET event_count = event_count + 1, state = 'scheduled' WHERE org_id = $1`, [orgId]);
    expect((await found()).failures).toEqual([]);
  });
});

test('failures are found by their own index', async () => {
  await dropPartitions(ledger); // The planner prefers a sequential scan of the empty ones.
  const client = await ledger.db.maintenance.connect();
  try {
    await client.query(
      `INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs, ns)
       SELECT n, now(), '00000000-0000-4000-8000-000000000000', 'running',
         (CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'completed' END)::millrace.job_state, 2, 't',
         CASE WHEN n % 50 = 0 THEN 'permanent_failure' ELSE 'succeeded' END, ARRAY[n], '{3}'
       FROM generate_series(1, 20000) n`,
    );
    await client.query('ANALYZE millrace.records');
    await client.query('SET plan_cache_mode = force_generic_plan');
    const text = allStatements().find(({ name }) => name === 'millrace_search_failures')?.text;
    await client.query(`PREPARE planned AS ${text}`);
    const values = `'00000000-0000-4000-8000-000000000000', null, null, 5000, null, null, null, null, null, 100, null, null`;
    const { rows } = await client.query(`EXPLAIN EXECUTE planned (${values})`);
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toMatch(/Index Scan Backward using \w*org_id_at\w*/);
    expect(plan).not.toMatch(/Seq Scan on (?:jobs|records)/);
  } finally {
    client.release(true);
  }
});
