import { expect, test } from 'vitest';
import '../../src/ledger/attempts/claim-room.ts';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const ORG = '00000000-0000-4000-8000-000000000000';
const MAX_BLOCKS = 50;

// One job of many is leased.
const FILL = `
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, completed_at, worker_id, order_key, policy_id, state,
    priority, requested_priority, max_attempts, event_count, record_ids, queue, job_type)
  SELECT n, '${ORG}', gen_random_uuid(), now(), now(), now(), CASE WHEN n < 8000 THEN now() END, CASE WHEN n = 8000 THEN 1 END, n, 1,
    (CASE WHEN n < 8000 THEN 'completed' ELSE 'scheduled' END)::millrace.job_state, 2, 2, 1, 1, '{}', 'q:default', 'capped'
  FROM generate_series(1, 8000) n;
  INSERT INTO millrace.claims (worker_id, claim_no, org_id, job_type, seqs) VALUES (1, 1, '${ORG}', 'capped', '{8000}');`;

test('what a claim under a cap costs does not grow with the jobs that ended, even by a plan made before', async () => {
  const session = await ledger.db.workers.connect();
  try {
    const { text } = allStatements().find(({ name }) => name === 'millrace_count_claim_room') as { text: string };
    await session.query(`PREPARE room AS ${text}`);
    const explain = (options: string) => session.query(`EXPLAIN ${options} EXECUTE room ('{capped}', '{${ORG}}')`);
    await explain('');
    await session.query(FILL);
    const { rows } = await explain('(ANALYZE, BUFFERS, FORMAT JSON)');
    const [{ Plan: plan }] = rows[0]['QUERY PLAN'];
    expect(plan['Actual Rows']).toBe(2);
    expect(plan['Shared Hit Blocks'] + plan['Shared Read Blocks']).toBeLessThan(MAX_BLOCKS);
  } finally {
    session.release(true);
  }
});
