import { describe, expect, test } from 'vitest';
import type { JobState } from '../../src/core/states.ts';
import { startJobs } from '../../src/ledger/attempts/start-jobs.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();

const cancel = async (job: TestJob, force = false, reason: string | null = 'not needed') =>
  (await cancelJobs(ledger.db.api, { projectId: null, orgId: job.orgId, ids: [job.id], reason, actor: 'user:ada', force }))[0];

const requestOf = async (job: TestJob) =>
  (await ledger.db.api.query('SELECT * FROM millrace.cancel_requests WHERE org_id = $1 AND seq = $2', [job.orgId, job.seq])).rows[0];

const WAITING: [JobState, string][] = [
  ['pending', '[GA-3.08]'],
  ['scheduled', '[GA-3.09]'],
  ['delayed', '[GA-3.10]'],
  ['retrying', '[GA-3.16]'],
];

describe('a job that is not running', () => {
  test.each(WAITING)('is cancelled at once when %s, with who and why [GA-3.02] [GA-3.06] %s', async (state) => {
    const job = await ledger.putJob(state);
    const before = await ledger.rowOf(job);
    const moved = { jobId: job.id, orgId: job.orgId, type: job.jobType, from: state, to: 'cancelled', reason: 'cancelled', failure: null };
    expect(await cancel(job)).toMatchObject({ id: job.id, kind: 'cancelled', previousState: state, moved });
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({ state: 'cancelled', worker_id: null, event_count: before.event_count + 1 });
    expect(row.completed_at).toEqual(row.updated_at);
    const events = await ledger.eventsOf(job);
    expect(events).toHaveLength(row.event_count);
    expect(events.at(-1)).toMatchObject({
      from_state: state,
      to_state: 'cancelled',
      reason: 'cancelled',
      actor: 'user:ada',
      detail: { reason: 'not needed' },
      n: row.event_count,
    });
  });

  test('is cancelled under a lease, which then starts nothing', async () => {
    const leased = await ledger.lease(await ledger.submitOne());
    expect(await cancel(leased)).toMatchObject({ kind: 'cancelled', previousState: 'scheduled' });
    expect((await startJobs(ledger.db.workers, { workerId: leased.workerId, jobs: [leased] })).started.size).toBe(0);
    expect(await ledger.stateOf(leased)).toBe('cancelled');
  });

  test('notifies the jobs that wait for it', async () => {
    const job = await ledger.submitOne();
    await ledger.submitOne({ orgId: job.orgId, dependsOn: [job] });
    await releaseDependents(ledger.db.maintenance, 100);
    await cancel(job, false, null);
    expect(await ledger.tokensOf(job, 'releases')).toBe(1);
    expect((await ledger.eventsOf(job)).at(-1)?.detail).toBeNull();
  });
});

describe('a running job', () => {
  test('is asked to stop and goes on [GA-3.11]', async () => {
    const job = await ledger.putJob('running');
    const before = await ledger.rowOf(job);
    expect(await cancel(job)).toEqual({ id: job.id, kind: 'requested', previousState: 'running' });
    expect(await ledger.rowOf(job)).toEqual(before);
    expect(await requestOf(job)).toMatchObject({ is_forced: false, reason: 'not needed', actor: 'user:ada' });
  });

  test('a second request can force the first and never soften it [GA-3.03] [GA-3.12]', async () => {
    const job = await ledger.putJob('running');
    await cancel(job, false);
    await cancel(job, true);
    expect((await requestOf(job)).is_forced).toBe(true);
    await cancel(job, false);
    expect((await requestOf(job)).is_forced).toBe(true);
  });

  test('the request goes with the end of the attempt, and its author is in the history', async () => {
    const job = await ledger.start(await ledger.submitOne());
    await cancel(job);
    await ledger.settle(job, { to: 'cancelled', reason: 'cancelled' });
    expect(await requestOf(job)).toBeUndefined();
    const last = (await ledger.eventsOf(job)).at(-1);
    expect(last).toMatchObject({ to_state: 'cancelled', actor: 'user:ada', detail: { reason: 'not needed' } });
  });

  test('a handler that finishes first completes it', async () => {
    const job = await ledger.start(await ledger.submitOne());
    await cancel(job);
    await ledger.settle(job, { to: 'completed', reason: 'succeeded' });
    expect(await ledger.stateOf(job)).toBe('completed');
    expect(await requestOf(job)).toBeUndefined();
    expect(await cancel(job)).toMatchObject({ kind: 'already_final' });
  });
});

describe('what cannot be cancelled', () => {
  const FINAL: [JobState, string][] = [
    ['completed', '[GA-3.13]'],
    ['failed', '[GA-3.14]'],
    ['dead_letter', '[GA-3.15]'],
    ['cancelled', '[GA-3.05]'],
  ];

  test.each(FINAL)('a job that is %s already stays as it is %s', async (state) => {
    const job = await ledger.putJob(state);
    const before = [await ledger.rowOf(job), await ledger.eventsOf(job)];
    expect(await cancel(job, true)).toEqual({ id: job.id, kind: 'already_final', previousState: state });
    expect([await ledger.rowOf(job), await ledger.eventsOf(job)]).toEqual(before);
  });

  test('a job of another org is not found, and nothing happens to it [GA-3.05]', async () => {
    const job = await ledger.submitOne();
    const foreign = { ...job, orgId: await ledger.newOrg() };
    expect(await cancel(foreign)).toEqual({ id: job.id, kind: 'not_found', previousState: null });
    expect(await ledger.stateOf(job)).toBe('scheduled');
  });
});

test('many ids are answered one by one, in the order given, also when repeated [GA-3.17]', async () => {
  const orgId = await ledger.newOrg();
  const waiting = await ledger.submitOne({ orgId });
  const running = await ledger.putJob('running', { orgId });
  const done = await ledger.putJob('completed', { orgId });
  const ids = [done.id, running.id, running.id, '0b7b7a3e-5d9a-4c0c-8a54-8a2c7ee8a001', waiting.id];
  const answers = await cancelJobs(ledger.db.api, { projectId: null, orgId, ids, reason: null, actor: null, force: false });
  expect(answers.map((answer) => answer.kind)).toEqual(['already_final', 'requested', 'requested', 'not_found', 'cancelled']);
  expect(answers.map((answer) => answer.id)).toEqual(ids);
});
