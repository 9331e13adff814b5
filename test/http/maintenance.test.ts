import { beforeAll, expect, test } from 'vitest';
import { SYSTEM_ORG_ID } from '../../src/core/delivery-policy.ts';
import { MAINTENANCE_TASK_NAMES } from '../../src/core/maintenance.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { ACTIONS } from '../ledger/audited-actions.ts';
import { until } from '../until.ts';
import { useIngest } from './ingest-fixture.ts';

const server = useIngest();

const query = async (text: string, values: unknown[] = []) => (await server.database.maintenance.query(text, values)).rows;
const taskOf = async (name: string) => (await server.get('/maintenance')).body.items.find((each: { name: string }) => each.name === name);
const act = (name: string, verb: string, body: object = {}) =>
  server.operate('POST', `/maintenance/${encodeURIComponent(name)}/${verb}`, { body });

// The tests say when a task runs: a run that is due in the middle of one would take what the test counts.
beforeAll(async () => {
  await query(`UPDATE millrace.schedules SET next_at = millrace.clock() + interval '1 day' WHERE starts_with(key, 'maintenance:')`);
  const states = async () => (await server.get('/maintenance')).body.items.map(({ state }: { state: string }) => state);
  await until('no task runs', states, (seen: string[]) => seen.every((state) => state === 'idle'));
});

/** Runs a task and waits for the end of the run. */
async function ran(name: string) {
  const { runs } = await taskOf(name);
  const { status, body } = await act(name, 'run');
  expect(status).toBe(202);
  await until(`the task ${name} has run`, async () => {
    const task = await taskOf(name);
    return task.runs > runs && task.state === 'idle';
  });
  return { jobId: body.last_job_id as string, task: await taskOf(name) };
}

async function putKey(key: string, age: string): Promise<void> {
  await query(
    `INSERT INTO millrace.idempotency_keys (org_id, scope, key, job_id, fingerprint, expires_at)
     VALUES ('00000000-0000-4000-8000-000000000000', 'kept', $1, gen_random_uuid(), 'f', millrace.clock() + $2::interval)`,
    [key, age],
  );
}

test('every task has a schedule of the system org, with its next run [AB-cat.22]', async () => {
  const { status, body } = await server.get('/maintenance');
  expect(status).toBe(200);
  expect(body.next_cursor).toBeNull();
  expect(body.items.map((each: { name: string }) => each.name)).toEqual(MAINTENANCE_TASK_NAMES);
  for (const task of body.items) {
    expect(task).toMatchObject({ paused: false, lag_seconds: expect.any(Number), summary: expect.any(String) });
    expect(Date.parse(task.next_at)).toBeGreaterThan(0);
  }
});

test('a run is a job of the category maintenance in q:maintenance, and removes expired idempotency keys only [AB-cat.23] [AB-cat.26] [AB-cat.27] [AB-queue.13] [C61]', async () => {
  await putKey('old', '-1 minute');
  await putKey('young', '1 minute');
  const { jobId, task } = await ran('idempotency_keys');
  expect(task).toMatchObject({ last_removed: 1, has_more: false, last_error: null, last_job_id: jobId });
  expect(await query(`SELECT key FROM millrace.idempotency_keys WHERE scope = 'kept'`)).toEqual([{ key: 'young' }]);
  const [job] = await query(
    `SELECT j.org_id, j.queue, j.category, j.state, p.body FROM millrace.jobs j JOIN millrace.policies p ON p.id = j.policy_id WHERE j.id = $1`,
    [jobId],
  );
  expect(job).toMatchObject({ org_id: SYSTEM_ORG_ID, queue: 'q:maintenance', category: 'maintenance', state: 'completed' });
});

test('the jobs have the default policy of retries, and are kept for two days [AB-retry.11] [C44]', async () => {
  const { jobId } = await ran('statistics');
  const [{ body, max_attempts: maxAttempts }] = await query(
    'SELECT p.body, j.max_attempts FROM millrace.jobs j JOIN millrace.policies p ON p.id = j.policy_id WHERE j.id = $1',
    [jobId],
  );
  expect(maxAttempts).toBe(3);
  expect(body).toMatchObject({ maxAttempts: 3, retentionMs: 2 * 86_400_000, lifetimeMs: null });
});

test('a paused task starts no run until it is resumed, and both are in the audit trail', async () => {
  const paused = await act('rollups', 'pause', { reason: 'a backup runs' });
  expect(paused).toMatchObject({ status: 200, body: { name: 'rollups', paused: true, lag_seconds: 0 } });
  expect(await query(`SELECT paused_at IS NOT NULL AS paused FROM millrace.schedules WHERE key = 'maintenance:rollups'`)).toEqual([
    { paused: true },
  ]);
  const resumedMs = Date.now();
  const resumed = await act('rollups', 'resume');
  expect(resumed.body.paused).toBe(false);
  expect(Date.parse(resumed.body.next_at)).toBeGreaterThan(resumedMs - 1_000);
  const rows = await query(`SELECT event, actor, details FROM ${ACTIONS} WHERE details->>'task' = 'rollups' ORDER BY id`);
  expect(rows).toEqual([
    { event: 'maintenance.paused', actor: 'user:operator', details: { task: 'rollups', reason: 'a backup runs' } },
    { event: 'maintenance.resumed', actor: 'user:operator', details: { task: 'rollups' } },
  ]);
});

test('a task has one job at a time', async () => {
  await query(`UPDATE millrace.queues SET paused_at = millrace.clock() WHERE name = 'q:maintenance'`);
  await server.platform.engine.catalogue.refresh();
  const first = await act('alerts', 'run');
  expect(first).toMatchObject({ status: 202, body: { state: 'waiting' } });
  const second = await act('alerts', 'run');
  expect(second.status).toBe(409);
  expect(second.body.error.message).toContain(first.body.last_job_id);
  await query(`UPDATE millrace.queues SET paused_at = NULL WHERE name = 'q:maintenance'`);
  await server.platform.engine.catalogue.refresh();
  await until('the job has run', async () => (await taskOf('alerts')).state === 'idle');
});

test.each(['__proto__', 'constructor', '../jobs', 'x'.repeat(90), 'idempotency_key'])('the unknown task %s is not found', async (name) => {
  for (const verb of ['run', 'pause', 'resume']) {
    const { status, body } = await act(name, verb);
    expect(status, body.error.message).toBe(404);
  }
});

test('the key of an org may not see or change maintenance', async () => {
  const { key } = await createKey(server.database, {
    orgId: '00000000-0000-4000-8000-000000000000',
    name: 'operator',
    scopes: ['operator'],
  });
  expect((await server.get('/maintenance', key)).status).toBe(403);
  for (const verb of ['run', 'pause', 'resume']) {
    expect((await server.operate('POST', `/maintenance/jobs/${verb}`, { token: key })).status).toBe(403);
  }
  expect((await server.get('/maintenance', null)).status).toBe(401);
});
