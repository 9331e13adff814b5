import { describe, expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { JOB_STATES } from '../../src/core/states.ts';
import { setOrgCap } from '../../src/ledger/access/orgs.ts';
import { registerWorker, stopWorker } from '../../src/ledger/attempts/workers.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { pauseType, resumeType, setTypeConcurrency } from '../../src/ledger/queues/job-types.ts';
import { configureQueue } from '../../src/ledger/queues/queues.ts';
import { countJobs } from '../../src/ledger/reads/count-jobs.ts';
import { explainJob } from '../../src/ledger/reads/explain-job.ts';
import { type TestJob, useLedger } from './fixture.ts';
import { stopClock } from './set-clock.ts';

const ledger = useLedger();
const HOUR = 3_600_000;

const explain = async (job: TestJob) => {
  const facts = await explainJob(ledger.db.api, wholeOrg(job.orgId), job.id);
  if (facts === null) throw new Error('the job is gone');
  return facts;
};

describe('countJobs', () => {
  test('counts every state by itself [GA-2.52] [GA-2.53] [GA-2.54] [GA-2.55] [GA-2.56] [GA-2.57] [GA-2.58]', async () => {
    const orgId = await ledger.newOrg();
    await ledger.submitOne(); // another org's
    for (const state of JOB_STATES) await ledger.putJob(state, { orgId });
    const { states } = await countJobs(ledger.db.api, orgId, { sinceMs: HOUR });
    // A pending job brings the scheduled one it waits for.
    expect(states).toEqual({ ...Object.fromEntries(JOB_STATES.map((state) => [state, 1])), scheduled: 2 });
  });

  test('the time range bounds what has ended and the rates, not what is live [GA-2.51] [GA-2.59] [GA-2.60] [GA-2.61]', async () => {
    const orgId = await ledger.newOrg();
    for (const state of ['completed', 'failed', 'dead_letter', 'scheduled'] as const) await ledger.putJob(state, { orgId });
    await ledger.moveClock(HOUR);
    for (const state of ['completed', 'completed', 'failed', 'dead_letter'] as const) await ledger.putJob(state, { orgId });
    const counts = await countJobs(ledger.db.api, orgId, { sinceMs: 100_000 });
    expect(counts.states).toMatchObject({ completed: 2, failed: 1, dead_letter: 1, scheduled: 1 });
    expect(counts.submissionRate).toBeCloseTo(0.04);
    expect(counts.completionRate).toBeCloseTo(0.02);
    expect(counts.failureRate).toBeCloseTo(0.02);
  });

  test('time in the queue and at work is reported in percentiles [GA-2.62] [GA-2.63] [GA-2.67] [GA-2.68] [GA-2.69] [GA-2.70]', async () => {
    const orgId = await ledger.newOrg();
    expect(await countJobs(ledger.db.api, orgId, { sinceMs: HOUR })).toMatchObject({
      queueLatency: null,
      executionTime: null,
    });
    const moveClock = await stopClock(ledger);
    for (const [queuedMs, executedMs] of [
      [10_000, 100_000],
      [20_000, 200_000],
      [300_000, 3_000_000],
    ] as const) {
      const job = await ledger.submitOne({ orgId });
      await moveClock(queuedMs);
      const running = await ledger.start(job);
      await moveClock(executedMs);
      await ledger.settle(running, { to: 'completed', reason: 'succeeded' });
    }
    const { queueLatency, executionTime } = await countJobs(ledger.db.api, orgId, { sinceMs: 2 * HOUR });
    const near = (ms: number | undefined, expected: number) => {
      expect(ms).toBeGreaterThan(expected * 0.97);
      expect(ms).toBeLessThan(expected * 1.03 + 5_000);
    };
    near(queueLatency?.p50Ms, 20_000);
    near(queueLatency?.p90Ms, 300_000);
    near(queueLatency?.p99Ms, 300_000);
    near(queueLatency?.maxMs, 300_000);
    near(executionTime?.p50Ms, 200_000);
    near(executionTime?.maxMs, 3_000_000);
  });

  test('breaks down by type, priority and state into four counts, when asked [GA-2.50] [GA-2.64] [GA-2.65] [GA-2.66] [GA-2.71] [GA-2.72] [GA-2.73] [GA-2.74]', async () => {
    const orgId = await ledger.newOrg();
    for (const state of JOB_STATES) await ledger.putJob(state, { orgId, type: `mail-${state}`, job: { priority: 1 } });
    const plain = await countJobs(ledger.db.api, orgId, { sinceMs: HOUR });
    expect([plain.byType, plain.byPriority, plain.byState]).toEqual([undefined, undefined, undefined]);
    const counts = await countJobs(ledger.db.api, orgId, { sinceMs: HOUR, breakdownBy: ['TYPE', 'PRIORITY', 'STATE'] });
    expect(counts.byType?.['mail-retrying']).toEqual({ pending: 1, running: 0, completed: 0, failed: 0 });
    expect(counts.byPriority?.HIGH).toEqual({ pending: 4, running: 1, completed: 1, failed: 2 });
    expect(counts.byPriority?.NORMAL).toEqual({ pending: 1, running: 0, completed: 0, failed: 0 });
    expect(counts.byState).toMatchObject({
      delayed: { pending: 1, running: 0, completed: 0, failed: 0 },
      running: { pending: 0, running: 1, completed: 0, failed: 0 },
      dead_letter: { pending: 0, running: 0, completed: 0, failed: 1 },
      cancelled: { pending: 0, running: 0, completed: 0, failed: 0 },
    });
  });
});

describe('explainJob', () => {
  test('a job of another org is not explained', async () => {
    const job = await ledger.submitOne();
    expect(await explainJob(ledger.db.api, wholeOrg(await ledger.newOrg()), job.id)).toBeNull();
  });

  test('a job in line tells who is ahead and who would take it', async () => {
    const type = 'in-line';
    const first = await ledger.submitOne({ type });
    const urgent = await ledger.submitOne({ type, job: { priority: 0 } });
    const last = await ledger.submitOne({ type });
    expect(await explain(last)).toMatchObject({
      state: 'scheduled',
      aheadInLine: 2,
      servingWorkers: 0,
      runInMs: 0,
      holder: null,
    });
    expect(await explain(first)).toMatchObject({ aheadInLine: 1 });
    expect(await explain(urgent)).toMatchObject({ aheadInLine: 0 });
    const worker = { name: 'w', host: 'h', pid: 1, slots: 1 };
    await registerWorker(ledger.db.workers, { ...worker, types: [type], queues: ['q:other'] });
    await registerWorker(ledger.db.workers, { ...worker, types: ['other'], queues: ['q:default'] });
    const serving = await registerWorker(ledger.db.workers, { ...worker, types: [type], queues: ['*'] });
    await registerWorker(ledger.db.workers, { ...worker, types: [type], queues: ['q:default'] });
    expect((await explain(last)).servingWorkers).toBe(2);
    await stopWorker(ledger.db.workers, serving);
    expect((await explain(last)).servingWorkers).toBe(1);
    await ledger.moveClock(31_000);
    expect((await explain(last)).servingWorkers).toBe(0);
  });

  test('a job that waits for its time or for others says for what', async () => {
    const delayed = await explain(await ledger.putJob('delayed'));
    expect(delayed.runInMs).toBeGreaterThan(50_000);
    expect(delayed.aheadInLine).toBeNull();
    const dependency = await ledger.putJob('running');
    const done = await ledger.putJob('completed', { orgId: dependency.orgId });
    const pending = await ledger.submitOne({ orgId: dependency.orgId, dependsOn: [dependency, done] });
    expect((await explain(pending)).unmetDependencies).toEqual([{ id: dependency.id, state: 'running' }]);
  });

  test('pauses and caps are shown with the number of running jobs', async () => {
    const job = await ledger.submitOne();
    expect(await explain(job)).toMatchObject({ queuePausedAt: null, typePausedAt: null, typeCap: null, orgCap: null });
    await configureQueue(ledger.db.api, { name: 'q:default', paused: true });
    await pauseType(ledger.db.api, job.jobType);
    expect(await explain(job)).toMatchObject({ queuePausedAt: expect.any(Date), typePausedAt: expect.any(Date) });
    await configureQueue(ledger.db.api, { name: 'q:default', paused: false });
    await resumeType(ledger.db.api, job.jobType);
    await setTypeConcurrency(ledger.db.api, job.jobType, 3);
    await setOrgCap(ledger.db.api, job.orgId, 5);
    await ledger.putJob('running', { orgId: job.orgId });
    await ledger.start(job);
    const waiting = await ledger.submitOne({ orgId: job.orgId, type: job.jobType });
    expect(await explain(waiting)).toMatchObject({
      typeCap: { cap: 3, live: 1 },
      orgCap: { cap: 5, live: 2 },
      queuePausedAt: null,
    });
  });

  test('a held job names its holder and how long its lease still lives', async () => {
    const running = await ledger.start(await ledger.submitOne({ policy: { leaseMs: 60_000 } }));
    await ledger.moveClock(20_000);
    const facts = await explain(running);
    expect(facts.holder).toMatchObject({
      workerId: running.workerId,
      name: 'worker',
      host: 'host-1',
      leaseSeq: running.leaseSeq,
    });
    expect(facts.holder?.leaseLeftMs).toBeGreaterThan(30_000);
    expect(facts.holder?.leaseLeftMs).toBeLessThanOrEqual(40_000);
    await cancelJobs(ledger.db.api, { projectId: null, orgId: running.orgId, ids: [running.id], reason: null, actor: null, force: true });
    expect((await explain(running)).cancelRequest).toMatchObject({ force: true });
  });

  test('a parent whose handler is done says how many children it waits for', async () => {
    const parent = await ledger.start(await ledger.submitOne());
    const placement = { parentSeq: parent.seq, joinsParent: true };
    await ledger.submitOne({ orgId: parent.orgId, placement });
    await ledger.putJob('completed', { orgId: parent.orgId, placement });
    expect((await explain(parent)).heldForChildren).toBeNull();
    await ledger.settle(parent, { to: 'completed', reason: 'succeeded', holds: true });
    expect(await explain(parent)).toMatchObject({ state: 'running', heldForChildren: 1, holder: null });
  });
});
