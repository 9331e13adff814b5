import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { MAINTENANCE_TASK_NAMES } from '../../src/core/maintenance.ts';
import { raiseAlerts } from '../../src/ledger/alerts/raise-alert.ts';
import { useIngest } from '../http/ingest-fixture.ts';
import { until } from '../until.ts';
import { ask, run } from './program.ts';

const server = useIngest();
const at = () => ['--url', server.url, '--token', 'operator-token-of-the-tests'];
const here = () => ({ database: server.databaseUrl });

type Task = { name: string; paused: boolean; runs: number };
const tasks = async () => ((await ask(['maintenance', 'list', ...at()], here())) as { items: Task[] }).items;

test('maintenance tasks are listed, run, paused and resumed [AB-cat.22]', async () => {
  const before = await tasks();
  expect(before.map(({ name }) => name)).toEqual(MAINTENANCE_TASK_NAMES);
  const ran = await run(['maintenance', 'run', 'idempotency_keys', ...at()], here());
  expect(ran.stdout).toMatch(/^The task idempotency_keys runs as job [0-9a-f-]{36}\.\n$/);
  // Its schedule may have run it, too.
  const runs = async () => (await tasks())[0]?.runs ?? 0;
  await until('it has run', runs, (seen) => seen > (before[0]?.runs ?? 0));
  const paused = await run(['maintenance', 'pause', 'rollups', '--reason', 'a backup runs', ...at()], here());
  expect(paused.stdout).toBe('The task rollups is paused.\n');
  expect((await run(['maintenance', 'list', ...at()], here())).stdout).toMatch(/rollups +paused/);
  expect((await run(['maintenance', 'resume', 'rollups', ...at()], here())).stdout).toContain('The task rollups runs again, next at 2');
  const unknown = await run(['maintenance', 'run', 'rollup', ...at()], here());
  expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('rollups') });
});

test('alerts are listed and acknowledged', async () => {
  const subject = `storage:${randomUUID()}`;
  await raiseAlerts(server.database.maintenance, [{ kind: 'storage', severity: 'error', orgId: null, subject, message: 'It is full.' }]);
  const { items } = (await ask(['alerts', 'list', '--kind', 'storage', ...at()], here())) as {
    items: { alert_id: string; subject: string }[];
  };
  const id = items.find((each) => each.subject === subject)?.alert_id ?? '';
  const acknowledged = await run(['alerts', 'ack', id, '--reason', 'known', ...at()], here());
  expect(acknowledged.stdout).toBe(`The alert ${id} about ${subject} is acknowledged by user:operator.\n`);
  expect((await run(['alerts', 'list', ...at()], here())).stdout).not.toContain(subject);
  expect((await run(['alerts', 'list', '--state', 'all', ...at()], here())).stdout).toContain('acknowledged by user:operator');
  expect((await run(['alerts', 'ack', 'nothing', ...at()], here())).code).toBe(1);
  expect((await run(['alerts', 'list', '--state', 'closed', ...at()], here())).code).toBe(2);
});
