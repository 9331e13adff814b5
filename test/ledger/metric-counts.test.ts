import { describe, expect, test } from 'vitest';
import { type CounterName, readMetricCounts } from '../../src/ledger/history/metric-counts.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { type SubmitOverrides, type TestJob, useLedger } from './fixture.ts';
import { projectAll } from './project-all.ts';

const ledger = useLedger();

/** The counts of a counter as `type/queue/detail: n`, of these types. */
async function counted(name: CounterName, ...types: string[]): Promise<string[]> {
  await projectAll(ledger);
  const { counts } = await readMetricCounts(ledger.db.api);
  return counts
    .filter((row) => row.name === name && types.includes(row.job_type))
    .map(({ job_type, queue, detail, n }) => `${job_type}/${queue}/${detail}: ${n}`)
    .toSorted();
}

async function cancel({ orgId, id }: TestJob): Promise<void> {
  await cancelJobs(ledger.db.api, { orgId, projectId: null, ids: [id], actor: 'test', reason: null, force: false });
}

const cancelled = async (job: SubmitOverrides): Promise<void> => cancel(await ledger.submitOne(job));

describe('metrics from the history', () => {
  test('count each transition once, by type and queue', async () => {
    const orgId = await ledger.newOrg();
    for (const queue of ['q:a', 'q:b', 'q:b']) await cancelled({ orgId, type: 'two-queues', job: { queue } });
    await ledger.putJob('completed', { orgId, type: 'one-queue' });
    expect(await counted('submitted', 'two-queues')).toEqual(['two-queues/q:a/: 1', 'two-queues/q:b/: 2']);
    expect(await counted('canceled', 'two-queues')).toEqual(['two-queues/q:a/: 1', 'two-queues/q:b/: 2']);
    expect(await counted('succeeded', 'one-queue')).toEqual(['one-queue/q:default/: 1']);
    expect(await counted('started', 'one-queue')).toEqual(['one-queue/q:default/: 1']);
    await projectAll(ledger);
    expect(await counted('submitted', 'one-queue')).toEqual(['one-queue/q:default/: 1']);
  });

  test('know a job that got its type later by its own queue, not by the queue of the type', async () => {
    const orgId = await ledger.newOrg();
    await cancelled({ orgId, type: 'settled', job: { queue: 'q:home' } });
    await projectAll(ledger);
    const job = await ledger.submitOne({ orgId, type: 'before', job: { queue: 'q:away' } });
    await ledger.db.api.query('UPDATE millrace.jobs SET job_type = $2 WHERE id = $1', [job.id, 'settled']);
    await cancel(job);
    expect(await counted('canceled', 'settled')).toEqual(['settled/q:away/: 1', 'settled/q:home/: 1']);
  });

  test('class failures by their category, and tell retries by policy', async () => {
    const orgId = await ledger.newOrg();
    await ledger.putJob('retrying', { orgId, type: 'failing' });
    const failed = await counted('failed', 'failing');
    expect(failed).toEqual([expect.stringMatching(/^failing\/q:default\/[a-z]+: 1$/)]);
    expect(await counted('retried', 'failing')).toEqual(['failing/q:default/policy: 1']);
  });

  test('take any name, and count what comes after the hundredth pair as other', async () => {
    const orgId = await ledger.newOrg();
    const names = ['a"b', 'c\\d', '{x="y"}', 'other', '__proto__'];
    for (const type of names) await ledger.putJob('completed', { orgId, type: `odd ${type}` });
    expect(await counted('succeeded', ...names.map((type) => `odd ${type}`))).toHaveLength(names.length);
    for (let made = 0; made < 110; made++) await ledger.submitOne({ orgId, type: `made-up-${made}` });
    await projectAll(ledger);
    const { rows } = await ledger.db.api.query('SELECT count(*)::int4 AS pairs FROM millrace.metric_series');
    expect(rows[0].pairs).toBe(100);
    const { counts } = await readMetricCounts(ledger.db.api);
    const submitted = counts.filter(({ name }) => name === 'submitted');
    const { rows: jobs } = await ledger.db.api.query('SELECT count(*)::int4 AS jobs FROM millrace.jobs');
    expect(submitted.reduce((sum, { n }) => sum + n, 0)).toBe(jobs[0].jobs);
    expect(submitted.find(({ job_type }) => job_type === 'other')?.n).toBeGreaterThanOrEqual(10);
  });
});
