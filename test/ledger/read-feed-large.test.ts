import { expect, test } from 'vitest';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { type FeedPosition, feedHorizon, readFeed, startOf } from '../../src/ledger/history/read-feed.ts';
import { until } from '../until.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const RECORD = `INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs)
  SELECT nextval('millrace.record_id'), now(), $1, 'pending', 'scheduled', 2, 'large', 'submitted',
    ARRAY(SELECT j.seq FROM millrace.jobs j WHERE j.org_id = $1 AND r = r ORDER BY j.seq)
  FROM generate_series(1, $2::int4) r RETURNING txid::text AS txid`;

/** One transaction with so many records, each of all jobs of the org. Returns its number once it is below the horizon. */
async function recordLarge(orgId: string, records: number): Promise<number> {
  const { rows } = await ledger.db.maintenance.query(RECORD, [orgId, records]);
  const txid = Number(rows[0].txid);
  await until(
    'the feed has moved past the transaction',
    async () => (await feedHorizon(ledger.db.api)).xmin,
    (count) => count > txid,
  );
  return txid;
}

async function orgWith(jobs: number): Promise<string> {
  const { orgId, id } = await ledger.submitOne();
  await ledger.db.maintenance.query(
    `INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, order_key, policy_id, state, priority,
       requested_priority, max_attempts, event_count, record_ids, queue, job_type)
     SELECT nextval('millrace.job_seq'), org_id, gen_random_uuid(), now(), now(), now(), 1, policy_id, state, priority, priority,
       max_attempts, 1, '{}', queue, job_type FROM millrace.jobs, generate_series(2, $2::int4) WHERE id = $1`,
    [id, jobs],
  );
  return orgId;
}

test('a large transaction is read in pages that end inside of its records, each event once', async () => {
  const orgId = await orgWith(70);
  const txid = await recordLarge(orgId, 6);
  let after: FeedPosition = startOf(txid);
  const seen: string[] = [];
  for (let hasMore = true; hasMore; ) {
    const page = await readFeed(ledger.db.api, [orgId], { after, limit: 32 });
    expect(page.events.length).toBeLessThanOrEqual(32);
    seen.push(...page.events.map(({ recordId, jobSeq }) => `${recordId}:${jobSeq}`));
    after = page.end;
    hasMore = page.hasMore;
  }
  expect([seen.length, new Set(seen).size]).toEqual([420, 420]);
});

test('a page costs the same however much its transaction holds', async () => {
  const orgId = await orgWith(1_000);
  const txid = await recordLarge(orgId, 300);
  const text = allStatements().find(({ name }) => name === 'millrace_feed_page')?.text ?? '';
  const client = await ledger.db.api.connect();
  try {
    await client.query(`PREPARE feed AS ${text}`);
    const place = `('{${orgId}}', '${txid}', 0, 0, 100, 0)`;
    const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE feed ${place}`);
    const [{ Plan: plan }] = rows[0]['QUERY PLAN'];
    // One record of 1 000 jobs is opened, and the 100 jobs of the page are looked up. All records of the transaction have 900 blocks.
    expect(plan['Shared Hit Blocks'] + plan['Shared Read Blocks']).toBeLessThan(700);
  } finally {
    client.release(true);
  }
});
