import { expect, test } from 'vitest';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const ORG = '00000000-0000-4000-8000-000000000000';
const JOBS = 4_000;
/** A check may look at a job, its tokens and its events several times, but not at every job for every job. */
const MOST_ROWS = 20 * JOBS;

// Waiting jobs, a thousand to a record and to a row of `ready`, as batches of submissions write them.
const FILL = `
  INSERT INTO millrace.policies (hash, body) VALUES ('x', '{"keyWindowMs": 1000}');
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, order_key, policy_id, state, priority, requested_priority,
    max_attempts, event_count, record_ids, queue, job_type)
  SELECT n, '${ORG}', gen_random_uuid(), now(), now(), now(), n, (SELECT max(id) FROM millrace.policies), 'scheduled', 2, 2, 1, 1,
    ARRAY[n / 1000], 'q:default', 'x' FROM generate_series(0, ${JOBS - 1}) n;
  INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs)
  SELECT n / 1000, now(), '${ORG}', 'pending', 'scheduled', 2, 'x', 'submitted', array_agg(n)
  FROM generate_series(0, ${JOBS - 1}) n GROUP BY 1;
  INSERT INTO millrace.ready (order_key, org_id, priority, queue, job_type, seqs)
  SELECT min(n), '${ORG}', 2, 'q:default', 'x', array_agg(n) FROM generate_series(0, ${JOBS - 1}) n GROUP BY n / 1000;`;

type Node = Record<string, unknown> & { Plans?: Node[] };

/** How many rows each step of a plan handled. */
function* rowsOf(node: Node): Generator<number> {
  const removed = ['Rows Removed by Filter', 'Rows Removed by Join Filter'].map((name) => Number(node[name] ?? 0));
  yield (Number(node['Actual Rows']) + (removed[0] ?? 0) + (removed[1] ?? 0)) * Number(node['Actual Loops']);
  for (const child of node.Plans ?? []) yield* rowsOf(child);
}

const VALUES: Readonly<Record<string, string>> = { millrace_check_histories: `('00000000-0000-0000-0000-000000000000', -1, 1000)` };

test.each(['check_histories', 'check_tokens', 'check_claims', 'check_orgs', 'check_keys'])(
  'the work of %s grows with the number of jobs, not with its square',
  async (name) => {
    const session = await ledger.db.maintenance.connect();
    try {
      const text = allStatements().find((made) => made.name === `millrace_${name}`)?.text;
      // The plan that a long check uses from its sixth batch on.
      await session.query(`BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; ${FILL}`);
      await session.query(`PREPARE checking AS ${text}`);
      const { rows } = await session.query(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE checking ${VALUES[`millrace_${name}`] ?? ''}`);
      const handled = [...rowsOf(rows[0]['QUERY PLAN'][0].Plan)];
      expect(Math.max(...handled)).toBeLessThan(MOST_ROWS);
      expect(Math.max(...handled)).toBeGreaterThanOrEqual(1_000);
    } finally {
      await session.query('ROLLBACK; DEALLOCATE ALL');
      session.release();
    }
  },
);

test('the ledger that these plans read is sound', async () => {
  await ledger.db.maintenance.query(FILL);
  expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
});
