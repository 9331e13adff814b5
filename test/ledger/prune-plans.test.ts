import { expect, test } from 'vitest';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { PRUNE_PLANNER } from '../../src/ledger/upkeep/prune.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const ORG = '00000000-0000-4000-8000-000000000000';
const WINDOW = 10;
/** A window of jobs, and a few rows for each. */
const MAX_ROWS = 100;

// The first few of many jobs of an org are due; others wait for the rest. All share their records.
const FILL = `
  INSERT INTO millrace.policies (hash, body) VALUES ('x', '{"retentionMs": 0}');
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, completed_at, order_key, policy_id, state, priority,
    requested_priority, max_attempts, event_count, record_ids, queue, job_type, has_dependents)
  SELECT n, '${ORG}', gen_random_uuid(), now(), now(), now(), CASE WHEN n <= 4000 THEN now() END, n, (SELECT max(id) FROM millrace.policies),
    (CASE WHEN n <= 4000 THEN 'completed' ELSE 'pending' END)::millrace.job_state, 2, 2, 1, 1, ARRAY[n], 'q:default', 'x', n <= 4000
  FROM generate_series(1, 8000) n;
  INSERT INTO millrace.dependencies (org_id, job_seq, depends_on_seq) SELECT '${ORG}', n, n - 3995 FROM generate_series(4001, 7995) n;
  INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs)
  SELECT n, now(), '${ORG}', 'pending', 'scheduled', 2, 'x', 'submitted', ARRAY[n] FROM generate_series(1, 8000) n;
  INSERT INTO millrace.progress (org_id, seq, percent, updated_at) SELECT '${ORG}', n, 1, now() FROM generate_series(1, 4000) n;
  INSERT INTO millrace.callback_orgs (org_id, secret, created_at) VALUES ('${ORG}', decode(repeat('00', 24), 'hex'), now());`;
const ALL_TOLD = 'UPDATE millrace.projections SET txid = pg_current_xact_id()';

type Node = Record<string, unknown> & { Plans?: Node[] };

/** What each scan of a table read in all, by the table's name. */
function* rowsRead(node: Node): Generator<[table: string, rows: number]> {
  const [rows, removed] = [Number(node['Actual Rows'] ?? 0), Number(node['Rows Removed by Filter'] ?? 0)];
  if (node['Relation Name'] !== undefined) yield [String(node['Relation Name']), (rows + removed) * Number(node['Actual Loops'] ?? 0)];
  for (const child of node.Plans ?? []) yield* rowsRead(child);
}

test('what a round of pruning reads does not grow with what it keeps, even by a plan made before', async () => {
  const session = await ledger.db.maintenance.connect();
  try {
    const textOf = (name: string) => allStatements().find((made) => made.name === name)?.text ?? '';
    await session.query(`PREPARE locking AS ${textOf('millrace_lock_jobs_to_prune')}`);
    await session.query(`PREPARE pruning AS ${textOf('millrace_prune_jobs')}`);
    const explain = async (options: string) => {
      const window = `'00000000-0000-0000-0000-000000000000', -1, ${WINDOW}, ${WINDOW}`;
      const jobs = `array_fill('${ORG}'::uuid, ARRAY[${WINDOW}]), '{1,2,3,4,5,6,7,8,9,10}'`;
      const plans: Node[] = [];
      for (const call of [`locking (${window})`, `pruning (${jobs})`]) {
        const { rows } = await session.query(`EXPLAIN (${options}, FORMAT JSON) EXECUTE ${call}`);
        plans.push(rows[0]['QUERY PLAN'][0].Plan);
      }
      return plans;
    };
    await session.query(`BEGIN; ${PRUNE_PLANNER}`);
    await explain('COSTS OFF');
    await session.query(`COMMIT; ${FILL}`);
    await session.query(ALL_TOLD);
    await session.query(`BEGIN; ${PRUNE_PLANNER}`);
    const read = (await explain('ANALYZE')).flatMap((plan) => [...rowsRead(plan)]);
    expect(read.filter(([, count]) => count > MAX_ROWS)).toEqual([]);
    expect(read.map(([table]) => table)).toEqual(expect.arrayContaining(['jobs', 'dependencies', 'progress', 'releases']));
    const { rows: left } = await session.query('SELECT count(*)::int4 AS jobs FROM millrace.jobs');
    expect(left).toEqual([{ jobs: 7_995 }]);
  } finally {
    session.release(true);
  }
});
