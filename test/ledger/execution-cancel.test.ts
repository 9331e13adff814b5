import { describe, expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { heartbeat } from '../../src/ledger/attempts/heartbeat.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { getJob, jobOwner } from '../../src/ledger/reads/get-job.ts';
import { historiesOfOrgs } from '../../src/ledger/reads/job-history.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import { type TestJob, useLedger } from './fixture.ts';
import { stopClock } from './set-clock.ts';

const ledger = useLedger();
const policy = PROFILES.forgerun;

const cancel = async ({ orgId, id }: TestJob) =>
  (await cancelJobs(ledger.db.api, { projectId: null, orgId, ids: [id], reason: null, actor: 'api_key:k', force: true }))[0];

describe('a policy that cancels at once', () => {
  test('ends a running job before its handler does, and voids what that does later [FR-09.19] [FR-14.51]', async () => {
    const running = await ledger.start(await ledger.submitOne({ policy }));
    expect(await cancel(running)).toMatchObject({ id: running.id, kind: 'cancelled', previousState: 'running' });
    expect(await ledger.rowOf(running)).toMatchObject({ state: 'cancelled', worker_id: null });
    expect(await ledger.settle(running, { to: 'completed', reason: 'succeeded', result: '1' })).toBe(false);
    expect(await ledger.pathOf(running)).toEqual([
      'pending>scheduled:submitted',
      'scheduled>running:started',
      'running>cancelled:cancelled',
    ]);
    expect((await ledger.eventsOf(running)).at(-1)).toMatchObject({ actor: 'api_key:k', took_ms: expect.any(Number) });
    expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
  });

  test('tells the worker at its next heartbeat that the job is gone', async () => {
    const running = await ledger.start(await ledger.submitOne({ policy }));
    await cancel(running);
    const beat = await heartbeat(ledger.db.workers, { workerId: running.workerId, jobs: [running] });
    expect(beat).toEqual({ alive: true, lost: [running.leaseSeq], cancels: [] });
  });

  test('leaves a job that waits for its next attempt failed, and it is not tried again', async () => {
    const job = await ledger.putJob('retrying', { policy });
    const moved = { from: 'retrying', to: 'failed', reason: 'retry_dropped' };
    expect(await cancel(job)).toMatchObject({ id: job.id, kind: 'retry_dropped', previousState: 'retrying', moved });
    expect((await ledger.pathOf(job)).at(-1)).toBe('retrying>failed:retry_dropped');
    await ledger.moveClock(120_000);
    await stageJobs(ledger.db.maintenance, { limit: 10, floor: null });
    expect(await ledger.stateOf(job)).toBe('failed');
    await ledger.moveClock(-120_000);
  });

  test('leaves a timer behind that starts no retry early', async () => {
    const job = await ledger.putJob('retrying', { policy });
    await cancel(job);
    const { orgId, id } = job;
    await retryJob(ledger.db.api, {
      projectId: null,
      ...{ orgId, id, resetAttempts: false, priority: null, actor: null },
      delayMs: 600_000,
    });
    await ledger.moveClock(120_000);
    await stageJobs(ledger.db.maintenance, { limit: 10, floor: null });
    expect(await ledger.stateOf(job)).toBe('delayed');
    await ledger.moveClock(-120_000);
  });

  test('and none other does so: a running job of another policy is asked to stop', async () => {
    const running = await ledger.start(await ledger.submitOne());
    expect(await cancel(running)).toMatchObject({ kind: 'requested' });
    expect(await ledger.stateOf(running)).toBe('running');
    const retrying = await ledger.putJob('retrying');
    expect(await cancel(retrying)).toMatchObject({ kind: 'cancelled' });
  });

  test('of a cancel and a completion at once exactly one happens [FR-14.51] [FR-13.02]', async () => {
    const running = await ledger.start(await ledger.submitOne({ policy }));
    const [cancelled, completed] = await Promise.all([
      cancel(running),
      ledger.settle(running, { to: 'completed', reason: 'succeeded', result: '1' }),
    ]);
    expect(completed).toBe(cancelled?.kind === 'already_final');
    const { state } = await ledger.rowOf(running);
    expect(state).toBe(completed ? 'completed' : 'cancelled');
    expect((await ledger.eventsOf(running)).filter((event) => event.from_state === 'running')).toHaveLength(1);
  });
});

describe('a claim that has not started', () => {
  const isLeased = async ({ orgId, id }: TestJob) => (await getJob(ledger.db.api, wholeOrg(orgId), id))?.isLeased;

  test('is seen while its worker lives and its lease does [FR-12.05] [FR-12.06] [FR-12.12]', async () => {
    const moveClock = await stopClock(ledger);
    const job = await ledger.submitOne({ policy });
    expect(await isLeased(job)).toBe(false);
    await ledger.lease(job);
    expect(await isLeased(job)).toBe(true);
    await moveClock(29_000);
    expect(await isLeased(job)).toBe(true);
    await moveClock(1_001);
    expect(await isLeased(job)).toBe(false);
  });

  test('ends with a worker that stops or is forgotten', async () => {
    const job = await ledger.submitOne({ policy });
    const { workerId } = await ledger.lease(job);
    await ledger.db.api.query('UPDATE millrace.workers SET stopped_at = now() WHERE id = $1', [workerId]);
    expect(await isLeased(job)).toBe(false);
    await ledger.db.api.query('DELETE FROM millrace.workers WHERE id = $1', [workerId]);
    expect(await isLeased(job)).toBe(false);
  });

  test('is remembered by the cancellation that ended it, and by no other [FR-09.16]', async () => {
    const orgId = await ledger.newOrg();
    const claimed = await ledger.lease(await ledger.submitOne({ policy, orgId }));
    const waiting = await ledger.submitOne({ policy, orgId });
    for (const job of [claimed, waiting]) await cancel(job);
    const histories = await historiesOfOrgs(ledger.db.api, [claimed, waiting]);
    expect(histories[0]?.at(-1)).toMatchObject({ to: 'cancelled', wasClaimed: true });
    expect(histories[1]?.at(-1)).not.toHaveProperty('wasClaimed');
  });
});

test('the history of a job that belongs to another org is empty', async () => {
  const job = await ledger.submitOne();
  const foreign = await ledger.submitOne();
  const wanted = [foreign, job].map(({ id }) => ({ orgId: job.orgId, projectId: null, id }));
  const histories = await historiesOfOrgs(ledger.db.api, wanted);
  expect(histories.map((history) => history.length)).toEqual([0, 1]);
});

test('the owner of a job is reported, whatever org it belongs to', async () => {
  const job = await ledger.submitOne();
  expect(await jobOwner(ledger.db.api, job.id)).toEqual({ orgId: job.orgId, jobType: job.jobType });
  expect(await jobOwner(ledger.db.api, '0b7b7a3e-5d9a-4c0c-8a54-8a2c7ee8a001')).toBeNull();
});

test("what was cancelled while it waited stands in nobody's way: a claim of one job gets the next that lives", async () => {
  const orgId = await ledger.newOrg();
  const type = 'in-line';
  const jobs = [];
  for (let n = 0; n < 4; n++) jobs.push(await ledger.submitOne({ orgId, type, policy }));
  for (const job of jobs.slice(0, 3)) await cancel(job);
  for (const job of jobs.slice(0, 3)) expect(await ledger.tokensOf(job, 'ready')).toBe(0);
  expect((await ledger.start(jobs[3] as TestJob)).started.id).toBe(jobs[3]?.id);
});

test('a cancel waits for no claim that holds the token: one of them gets the job', async () => {
  for (let round = 0; round < 10; round++) {
    const job = await ledger.submitOne({ policy });
    const [claimed, cancelled] = await Promise.all([ledger.lease(job).catch(() => null), cancel(job)]);
    expect(cancelled?.kind).toBe('cancelled');
    expect(await ledger.stateOf(job)).toBe('cancelled');
    if (claimed !== null) expect(await ledger.settle(claimed, { to: 'completed', reason: 'succeeded' })).toBe(false);
    expect(await ledger.tokensOf(job, 'ready')).toBe(0);
  }
});
