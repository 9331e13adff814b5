import { beforeAll, expect, test } from 'vitest';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import '../../src/ledger/upkeep/expire-jobs.ts';
import '../../src/ledger/upkeep/release-dependents.ts';
import '../../src/ledger/jobs/lock-dependencies.ts';
import '../../src/ledger/upkeep/stage-jobs.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const ORG = '00000000-0000-4000-8000-000000000000';
const FIRST = '00000000-0000-0000-0000-000000000000';
const MAX_ROWS = 100;

// One job with many dependents, and many orgs with releases; one of the orgs has a long line of them.
const FILL = `
  INSERT INTO millrace.policies (hash, body) VALUES ('x', '{}');
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, completed_at, order_key, policy_id, state, priority,
    requested_priority, max_attempts, event_count, record_ids, queue, job_type, has_dependents)
  SELECT n, '${ORG}', ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, now(), now(), now(),
    CASE WHEN n <= 1000 THEN now() END, n, (SELECT max(id) FROM millrace.policies),
    (CASE WHEN n <= 1000 THEN 'completed' WHEN n > 7000 THEN 'delayed' ELSE 'pending' END)::millrace.job_state, 2, 2, 1, 1, ARRAY[n],
    'q:default', 'x', n = 1
  FROM generate_series(1, 8000) n;
  INSERT INTO millrace.dependencies (org_id, job_seq, depends_on_seq) SELECT '${ORG}', n, 1 FROM generate_series(1001, 7000) n;
  INSERT INTO millrace.timers (run_at, seq, org_id) SELECT now(), n, '${ORG}' FROM generate_series(7001, 8000) n;
  INSERT INTO millrace.releases (org_id, seq, is_new) SELECT '${ORG}', n, n > 3000 FROM generate_series(1, 6000) n;
  INSERT INTO millrace.releases (org_id, seq) SELECT gen_random_uuid(), n FROM generate_series(1, 3000) n;`;

// An automatic vacuum between two tests would count the rows that the first one rolled back: none. Plans for an empty table prove nothing.
beforeAll(async () => {
  for (const table of ['jobs', 'dependencies', 'timers', 'releases']) {
    await ledger.db.workers.query(`ALTER TABLE millrace.${table} SET (autovacuum_enabled = off)`);
  }
});

type Node = Record<string, unknown> & { Plans?: Node[] };

function* rowsRead(node: Node): Generator<[table: string, rows: number]> {
  const [rows, removed] = [Number(node['Actual Rows'] ?? 0), Number(node['Rows Removed by Filter'] ?? 0)];
  if (node['Relation Name'] !== undefined) yield [String(node['Relation Name']), (rows + removed) * Number(node['Actual Loops'] ?? 0)];
  for (const child of node.Plans ?? []) yield* rowsRead(child);
}

const JOB = `ARRAY['${ORG}'::uuid]`;

test.each([
  ['take_new_releases', `'${FIRST}', 10`],
  ['take_releases', `'${FIRST}', 10`],
  ['find_dependents', `'{1}', ${JOB}, '{1}', '{1500}', 10`],
  ['lock_dependents', `${JOB}, '{1001}'`],
  ['read_dependencies', `${JOB}, '{1001}'`],
  ['release_dependents', `${JOB}, '{1001}', '{pending}', '{null}', '{dependencies_met}', '{null}', false`],
  ['adopt_dependents', `'{3001}', ${JOB}, '{3001}'`],
  ['lock_dependencies', `'${ORG}', '{00000000-0000-4000-8000-000000000002}'`],
  ['stage_jobs', `10, NULL, false`],
])('what %s reads does not grow with the tables', async (name, values) => {
  const session = await ledger.db.workers.connect();
  try {
    const text = allStatements().find((made) => made.name === `millrace_${name}`)?.text ?? '';
    await session.query(`BEGIN; ${FILL}`);
    await session.query(`PREPARE planned AS ${text}`);
    const { rows } = await session.query(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE planned (${values})`);
    const read = [...rowsRead(rows[0]['QUERY PLAN'][0].Plan)];
    expect(read.length).toBeGreaterThan(0);
    expect(read.filter(([, count]) => count > MAX_ROWS)).toEqual([]);
  } finally {
    await session.query('ROLLBACK; DEALLOCATE planned');
    session.release();
  }
});
