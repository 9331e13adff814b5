import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { newName, publish, useProducers } from '../http/producer-fixture.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { ask, folderWith, run, start } from './program.ts';

const ledger = useLedger();
const producers = useProducers(() => ledger.db.url);
const here = () => ({ database: ledger.db.url });

test('producers create shows a password that works, once; list and delete know the role [C89]', async () => {
  const role = newName();
  const { code, stdout, stderr } = await run(['producers', 'create', role, '--org', 'default'], here());
  expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('shown only once') });
  const [password = ''] = stdout.split('\n');
  const url = new URL(ledger.db.url);
  url.username = role;
  url.password = password;
  const client = await producers.connect({ url: url.href });
  await publish(client, { job_type: 'default', resource_id: 'a', url: 'https://example.com/' });
  const listed = await run(['producers', 'list'], here());
  expect(listed.stdout).toMatch(new RegExp(`${role} +default`));
  expect(listed.stdout).not.toContain(password);
  expect((await run(['producers', 'create', role, '--org', 'default'], here())).stderr).toContain('already has a role');
  expect((await run(['producers', 'create', role], here())).code).toBe(2);
  expect((await run(['producers', 'delete', role], here())).stdout).toContain(`The producer ${role} is removed.`);
  expect((await run(['producers', 'delete', role], here())).code).toBe(1);
  expect(await ask(['producers', 'list'], here())).toEqual({ producers: [] });
  await ledger.db.api.query('DELETE FROM millrace.task_intake');
});

const counts = async () => {
  const { rows } = await ledger.db.api.query(`SELECT (SELECT count(*)::int4 FROM millrace.task_intake) AS waiting,
    (SELECT count(DISTINCT resource_id)::int4 FROM millrace.ingest_resources) AS resources,
    (SELECT count(*)::int4 FROM millrace.jobs WHERE job_type = 'fetchbox.fetch') AS tasks,
    (SELECT coalesce(sum(resource_total), 0)::int4 FROM millrace.ingest_jobs) AS total,
    (SELECT coalesce(sum(entries), 0)::int4 FROM millrace.stream_entries WHERE stream = 'jobs.tasks') AS entries`);
  return rows[0];
};

test('kill -9 in the middle of the intake loses no task and doubles none, with two processes after it [FB-5.02] [FB-5.07]', async () => {
  const client = await producers.connect(await producers.create());
  const text = `INSERT INTO millrace.task_intake (job_type, job_id, resource_id, url)
    SELECT 'default', '7f8a5b1e-0000-4000-8000-000000000001', 'r' || n, 'http://127.0.0.1:9/' || n FROM generate_series(1, 1000) n`;
  await client.query(text);
  const blocker = new pg.Client({ connectionString: ledger.db.url });
  await blocker.connect();
  onTestFinished(() => blocker.end());
  // The intake has removed its rows and written the job when it comes to the stream, where it waits.
  await blocker.query('BEGIN; LOCK TABLE millrace.stream_entries IN SHARE MODE');
  const cwd = folderWith({ 'millrace.toml': '' });
  const first = start(['work'], { ...here(), cwd });
  await until('the intake waits in its transaction', async () => {
    const { rows } = await ledger.db.api.query(
      `SELECT FROM pg_locks w JOIN pg_locks h ON h.pid = w.pid WHERE w.relation = 'millrace.stream_entries'::regclass AND NOT w.granted
         AND h.relation = 'millrace.ingest_resources'::regclass AND h.mode = 'RowExclusiveLock'`,
    );
    return rows.length > 0;
  });
  first.kill('SIGKILL');
  await first.ended;
  await blocker.query('ROLLBACK');
  await until('the server has rolled back', counts, ({ waiting, total }) => waiting === 1_000 && total === 0);
  for (const name of ['w-1', 'w-2']) start(['work', '--name', name], { ...here(), cwd });
  await until('every task was taken', counts, { waiting: 0, resources: 1_000, tasks: 1_000, total: 1_000, entries: 1_000 });
});
