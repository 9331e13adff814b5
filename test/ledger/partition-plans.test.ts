import { expect, test } from 'vitest';
import '../../src/ledger/history/record-partitions.ts';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const ORGS = 5;
const MAX_BLOCKS = 50;

/** So many more jobs of today for each of a few orgs. */
const fill = (jobs: number) => `
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, completed_at, order_key, policy_id, state,
    priority, requested_priority, max_attempts, event_count, record_ids, queue, job_type)
  SELECT nextval('millrace.job_seq'), ('00000000-0000-4000-8000-00000000000' || n % ${ORGS})::uuid, gen_random_uuid(), now(), now(),
    now(), now(), n, 1, 'completed', 2, 2, 1, 1, '{}', 'q:default', 'done'
  FROM generate_series(1, ${jobs}) n`;

const DAYS_AGO = (days: number) => `to_char(now() AT TIME ZONE 'UTC' - interval '${days} days', 'YYYYMMDD')`;

test('whether a day may go costs a step for each org, however many jobs there are, even by a plan made before', async () => {
  const session = await ledger.db.maintenance.connect();
  try {
    const { text } = allStatements().find(({ name }) => name === 'millrace_jobs_before_day_end') as { text: string };
    await session.query(`PREPARE spoken_of AS ${text}`);
    const found = async () => (await session.query(`EXECUTE spoken_of (${DAYS_AGO(2)})`)).rows[0].found as boolean;
    const blocks = async () => {
      const { rows } = await session.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE spoken_of (${DAYS_AGO(2)})`);
      const [{ Plan: plan }] = rows[0]['QUERY PLAN'];
      return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
    };
    expect(await found()).toBe(false);
    await session.query(fill(1_000));
    const few = await blocks();
    await session.query(fill(9_000));
    expect(await blocks()).toBeLessThanOrEqual(few + 2 * ORGS);
    expect(few).toBeLessThan(MAX_BLOCKS);
    expect(await found()).toBe(false);
    const last = 'SELECT org_id FROM millrace.jobs ORDER BY org_id DESC LIMIT 1';
    const age = `UPDATE millrace.jobs SET created_at = now() - interval '5 days'
      WHERE (org_id, seq) = (SELECT org_id, min(seq) FROM millrace.jobs WHERE org_id = (${last}) GROUP BY org_id)`;
    expect((await session.query(age)).rowCount).toBe(1);
    expect(await found()).toBe(true);
  } finally {
    session.release(true);
  }
});
