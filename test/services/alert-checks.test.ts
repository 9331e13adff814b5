import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { MAINTENANCE_TASK_NAMES } from '../../src/core/maintenance.ts';
import { EventHub } from '../../src/engine/events.ts';
import { raiseAlerts } from '../../src/ledger/alerts/raise-alert.ts';
import { appendEntries } from '../../src/ledger/ingest/streams.ts';
import { takeTurn } from '../../src/ledger/upkeep/maintenance-tasks.ts';
import { alertChecks, findStorageTrouble, findTrouble, type StorageProbes } from '../../src/services/alerts/alert-checks.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

const ledger = useLedger();
const query = async (text: string, values: unknown[] = []) => (await ledger.db.api.query(text, values)).rows;
const found = async (kind: string, subject: string) =>
  (await findTrouble(ledger.db)).filter((alert) => alert.kind === kind && alert.subject === subject);

const PROBES: StorageProbes = { disks: async () => [], checkObjects: async () => {}, storedBytes: 1e15 };
const storage = (probes: Partial<StorageProbes>) => findStorageTrouble(ledger.db, { ...PROBES, ...probes });

/** A job that could have started so long ago. */
async function putWaiting(age: string, queue = `q:${randomUUID()}`) {
  await query('INSERT INTO millrace.queues (name) VALUES ($1) ON CONFLICT DO NOTHING', [queue]);
  const job = await ledger.putJob('scheduled', { job: { queue } });
  await query('UPDATE millrace.jobs SET scheduled_at = scheduled_at - $2::interval WHERE id = $1', [job.id, age]);
  return { queue, type: job.jobType };
}

describe('an alert is raised', () => {
  it('for a queue whose oldest job waits longer than its target, and not for one that is paused [N50]', async () => {
    const [slow, quick, paused] = [await putWaiting('2 minutes'), await putWaiting('20 seconds'), await putWaiting('1 hour')];
    await query('UPDATE millrace.queues SET paused_at = now() WHERE name = $1', [paused.queue]);
    const alerts = await found('slo', `queue:${slow.queue}`);
    expect(alerts).toMatchObject([{ severity: 'warning', orgId: null, message: expect.stringContaining('target is 60 s') }]);
    expect([...(await found('slo', `queue:${quick.queue}`)), ...(await found('slo', `queue:${paused.queue}`))]).toEqual([]);
  });

  it('for a type that no live worker serves', async () => {
    const { type } = await putWaiting('2 minutes');
    expect(await found('no_worker', `type:${type}`)).toMatchObject([{ severity: 'error' }]);
    const workerId = await ledger.registerWorker();
    await query(`UPDATE millrace.workers SET types = ARRAY[$2], queues = '{*}' WHERE id = $1`, [workerId, type]);
    expect(await found('no_worker', `type:${type}`)).toEqual([]);
    await query(`UPDATE millrace.workers SET beat_at = beat_at - interval '1 hour' WHERE id = $1`, [workerId]);
    expect(await found('no_worker', `type:${type}`)).toHaveLength(1);
  });

  it('once for a webhook that failures have disabled', async () => {
    const [orgId, id] = [await ledger.newOrg(), randomUUID()];
    await query(
      `INSERT INTO millrace.webhooks (id, org_id, kind, url, events, created_at, updated_at, disabled_at, disabled_reason)
       VALUES ($1, $2, 'webhook', 'https://example.com', '{*}', now(), now(), now(), 'failing')`,
      [id, orgId],
    );
    const alerts = await found('webhook_disabled', `webhook:${id}`);
    expect(alerts).toMatchObject([{ orgId, severity: 'warning' }]);
    await raiseAlerts(ledger.db.api, alerts);
    expect(await found('webhook_disabled', `webhook:${id}`)).toEqual([]);
  });

  it('for downloads that used up their attempts, once for each ingest job, and again when more of it dies [AB-dead.06]', async () => {
    const [orgId, jobId] = [await ledger.newOrg(), randomUUID()];
    const die = (state: string) =>
      appendEntries(ledger.db.api, [{ stream: 'jobs.dlq', orgId, jobId, body: { state, error: { code: 'CONNECTION_FAILED' } } }]);
    await die('failed');
    expect(await found('dead_letter', `job:${jobId}`)).toEqual([]);
    for (let n = 0; n < 3; n++) await die('dead_letter');
    const alerts = await found('dead_letter', `job:${jobId}`);
    expect(alerts).toMatchObject([
      { orgId, severity: 'error', count: 3, message: expect.stringMatching(/^Downloads .* with CONNECTION_FAILED/) },
    ]);
    await raiseAlerts(ledger.db.api, alerts);
    expect(await found('dead_letter', `job:${jobId}`)).toEqual([]);
    await die('dead_letter');
    expect(await found('dead_letter', `job:${jobId}`)).toMatchObject([{ count: 1 }]);
  });

  it('for the last step of an ingest job that used up its attempts [N45]', async () => {
    const [orgId, jobId] = [await ledger.newOrg(), randomUUID()];
    const finalizer = await ledger.putJob('dead_letter', { orgId, job: { type: 'fetchbox.finalize' } });
    await query(
      `INSERT INTO millrace.ingest_jobs (id, org_id, job_type, bucket, manifest_sha256, resource_count, resource_total, stored_bytes, log_offset, actor, created_at, updated_at, settled_at,
         completed, failed, bytes, finalizer_id)
       VALUES ($1, $2, 'gallery', 'b', 'x', 0, 0, 0, 0, 'test', now(), now(), now(), 0, 0, 0, $3)`,
      [jobId, orgId, finalizer.id],
    );
    expect(await found('dead_letter', `job:${jobId}`)).toMatchObject([{ orgId, message: expect.stringMatching(/^The last step/) }]);
  });

  it('for a reader of the history that is stuck', async () => {
    await ledger.project();
    expect(await found('stuck_loop', 'projection:rollups')).toEqual([]);
    await ledger.putJob('scheduled');
    await ledger.moveClock(20 * 60_000);
    expect(await found('stuck_loop', 'projection:rollups')).toHaveLength(1);
    await ledger.project();
    expect(await found('stuck_loop', 'projection:rollups')).toEqual([]);
  });

  it('for a maintenance task that does not run', async () => {
    const name = MAINTENANCE_TASK_NAMES[0] as string;
    await query(
      `INSERT INTO millrace.schedules (org_id, key, cron, time_zone, missed, submission, next_at, created_at)
       VALUES ('00000000-0000-4000-8000-000000000001', $1, '* * * * *', 'UTC', 'one', '{}', millrace.clock() - interval '2 hours', now())`,
      [`maintenance:${name}`],
    );
    expect(await found('stuck_loop', `maintenance:${name}`)).toHaveLength(1);
    await query('UPDATE millrace.schedules SET paused_at = now() WHERE key = $1', [`maintenance:${name}`]);
    expect(await found('stuck_loop', `maintenance:${name}`)).toEqual([]);
  });

  it('for a disk that is nearly full, a store that fails, and jobs near their limit', async () => {
    expect(await storage({})).toEqual([]);
    const disks = async () => [
      { name: 'database', freeBytes: 5, totalBytes: 100 },
      { name: 'objects', freeBytes: 50, totalBytes: 100 },
    ];
    expect(await storage({ disks })).toMatchObject([{ subject: 'storage:database', message: expect.stringContaining('5 % left') }]);
    const checkObjects = () => Promise.reject(new Error('no bucket'));
    expect(await storage({ checkObjects })).toMatchObject([
      { subject: 'storage:objects', severity: 'error', message: expect.stringContaining('no bucket') },
    ]);
    expect(await storage({ storedBytes: 1 })).toMatchObject([{ subject: 'storage:jobs' }]);
  });
});

it('one of many processes does a round', async () => {
  const turns = await Promise.all(Array.from({ length: 8 }, () => takeTurn(ledger.db.maintenance, 'round', 60_000)));
  expect(turns.filter(Boolean)).toHaveLength(1);
  await ledger.moveClock(61_000);
  expect(await takeTurn(ledger.db.maintenance, 'round', 60_000)).toBe(true);
});

it('the loops raise what they find', async () => {
  const { queue } = await putWaiting('5 minutes');
  const [checks] = alertChecks({ database: ledger.db, events: new EventHub() }, PROBES);
  await query(`DELETE FROM millrace.maintenance_tasks WHERE name = 'alert checks'`);
  checks?.start();
  (checks as unknown as { wake(): void }).wake();
  await until(
    'the alert is raised',
    async () => (await query(`SELECT FROM millrace.alerts WHERE subject = $1`, [`queue:${queue}`])).length,
    1,
  );
  await checks?.stop();
});
