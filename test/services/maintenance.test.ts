import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { MAINTENANCE_POLICY, MAINTENANCE_TYPE, type MaintenanceTaskName } from '../../src/core/maintenance.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { DEFAULT_LIMITS, normalizeSubmission } from '../../src/core/submission.ts';
import { pruneEnded, pruneExpiredKeys } from '../../src/ledger/upkeep/prune.ts';
import type { TaskStep, TaskSteps } from '../../src/services/maintenance/maintenance-task.ts';
import { runTask } from '../../src/services/maintenance/run-task.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

const ledger = useLedger();
const query = async (text: string, values: unknown[] = []) => (await ledger.db.api.query(text, values)).rows;

const NEVER = new AbortController().signal;
const BOUNDS = { runMs: 60_000, runRows: 1_000_000, pauseMs: 0 };

/** Runs a task that does this. */
function runWith(
  name: MaintenanceTaskName,
  step: () => Promise<TaskStep>,
  { bounds = {}, signal = NEVER }: { bounds?: Partial<typeof BOUNDS>; signal?: AbortSignal } = {},
) {
  const steps = { [name]: step } as unknown as TaskSteps;
  return runTask({ database: ledger.db, steps, bounds: { ...BOUNDS, ...bounds } }, { name, jobId: randomUUID(), signal });
}

const taskOf = async (name: string) => (await query('SELECT * FROM millrace.maintenance_tasks WHERE name = $1', [name]))[0];

it('repeats steps until nothing is left, and notes what it removed', async () => {
  const left = [3, 2, 1];
  const step = async () => ({ removed: left.shift() ?? 0, hasMore: left.length > 0 });
  expect(await runWith('jobs', step)).toEqual({ removed: 6, hasMore: false });
  expect(await taskOf('jobs')).toMatchObject({ runs: 1, removed_total: 6, last_removed: 6, has_more: false, last_error: null });
});

it('ends at its bound of rows or of time, and the next run continues [AB-cat.24]', async () => {
  const step = async () => ({ removed: 10, hasMore: true });
  expect(await runWith('ingest', step, { bounds: { runRows: 25 } })).toEqual({ removed: 30, hasMore: true });
  expect(await runWith('ingest', step, { bounds: { runMs: 0 } })).toEqual({ removed: 10, hasMore: true });
  expect(await taskOf('ingest')).toMatchObject({ runs: 2, removed_total: 40, last_removed: 10, has_more: true });
});

it('pauses between steps, and a pause ends when its job is asked to stop [AB-cat.25]', async () => {
  const asked = new AbortController();
  let steps = 0;
  const step = async () => ({ removed: 1, hasMore: ++steps > 0 });
  const run = runWith('streams', step, { signal: asked.signal, bounds: { pauseMs: 3_600_000 } });
  await until('the first step is done', () => steps > 0);
  // Without the pause there would be thousands of steps by now.
  for (let n = 0; n < 20; n++) await query('SELECT 1');
  expect(steps).toBe(1);
  asked.abort(new Error('enough'));
  await expect(run).rejects.toThrow('enough');
});

it('stops between steps when its job is asked to, and keeps what it did', async () => {
  const asked = new AbortController();
  const step = async () => {
    asked.abort(new Error('asked to stop'));
    return { removed: 7, hasMore: true };
  };
  await expect(runWith('rollups', step, { signal: asked.signal, bounds: { pauseMs: 60_000 } })).rejects.toThrow('asked to stop');
  expect(await taskOf('rollups')).toMatchObject({ runs: 0, last_removed: 7, last_error: 'asked to stop' });
});

it('notes a failure without secrets, and a later success forgets it [AB-cat.23]', async () => {
  const failing = () => Promise.reject(new Error('no access with password=hunter2'));
  await expect(runWith('access', failing)).rejects.toThrow();
  const { last_error: error } = await taskOf('access');
  expect(error).toContain('no access');
  expect(error).not.toContain('hunter2');
  await runWith('access', async () => ({ removed: 0, hasMore: false }));
  expect((await taskOf('access')).last_error).toBeNull();
});

it('never removes what is younger than its retention, whatever is written meanwhile [AB-cat.26]', async () => {
  const [orgId, scope] = [await ledger.newOrg(), randomUUID()];
  const MINUTE = 60_000;
  let isWriting = true;
  const kept = new Set<string>();
  const write = async () => {
    for (let n = 0; isWriting && n < 400; n++) {
      const key = `${n}`;
      const isOld = n % 2 === 0;
      await query(
        `INSERT INTO millrace.idempotency_keys (org_id, scope, key, job_id, fingerprint, expires_at)
         VALUES ($1, $2, $3, gen_random_uuid(), 'f', millrace.clock() + $4::float8 * interval '1 ms')`,
        [orgId, scope, key, isOld ? -MINUTE : 10 * MINUTE],
      );
      if (!isOld) kept.add(key);
    }
  };
  const young = await ledger.putJob('completed', { orgId, policy: { retentionMs: 10 * MINUTE } });
  const old = await ledger.putJob('completed', { orgId, policy: { retentionMs: 0 } });
  const open = await ledger.putJob('scheduled', { orgId, policy: { retentionMs: 0 } });
  await ledger.project();
  const writing = write().finally(() => {
    isWriting = false;
  });
  const prune = async (): Promise<TaskStep> => {
    const removed = (await pruneExpiredKeys(ledger.db.maintenance, 10)) + (await pruneEnded(ledger.db.maintenance, 10));
    return { removed, hasMore: isWriting || removed > 0 };
  };
  await Promise.all([runWith('idempotency_keys', prune), runWith('idempotency_keys', prune)]);
  await writing;
  const left = await query('SELECT key FROM millrace.idempotency_keys WHERE org_id = $1 AND scope = $2', [orgId, scope]);
  expect(new Set(left.map(({ key }) => key))).toEqual(kept);
  await until(
    'the old job is gone',
    async () => {
      await ledger.project();
      await prune();
      return (await query('SELECT id FROM millrace.jobs WHERE org_id = $1 ORDER BY seq', [orgId])).map(({ id }) => id).join();
    },
    [young.id, open.id].join(),
  );
  expect(old.id).not.toBe(young.id);
});

it('only maintenance may submit jobs of its type', () => {
  const submit = (profile: typeof MAINTENANCE_POLICY) =>
    normalizeSubmission({ type: MAINTENANCE_TYPE, payload: { task: 'jobs' } }, { nowMs: Date.now(), limits: DEFAULT_LIMITS, profile });
  expect(submit(PROFILES.gopherqueue)).toMatchObject({ ok: false, issues: [{ code: 'RESERVED_TYPE' }] });
  expect(submit(MAINTENANCE_POLICY)).toMatchObject({ ok: true });
});
