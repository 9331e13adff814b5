/** Attempts whose handler was called under a lease, and whose start is written with their outcome or later. */

import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { leaseAhead } from '../../src/ledger/attempts/claim-jobs.ts';
import { completeJobs, completeLateJobs, type LateJob } from '../../src/ledger/attempts/complete-jobs.ts';
import { returnJobs } from '../../src/ledger/attempts/return-jobs.ts';
import { checkLanded } from '../../src/ledger/attempts/settle-jobs.ts';
import { presumeStarted, settleOrphans } from '../../src/ledger/attempts/settle-orphans.ts';
import { startJobs } from '../../src/ledger/attempts/start-jobs.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { jobAttempts } from '../../src/ledger/reads/job-attempts.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { type LeasedTestJob, rangesOf, settled, type TestJob, useLedger } from './fixture.ts';
import { lateJob, leaseOneAhead, newJobAhead } from './lease-ahead.ts';

const ledger = useLedger();
const db = () => ledger.db.workers;
const SUBMITTED = 'pending>scheduled:submitted';
const WHOLE = [SUBMITTED, 'scheduled>running:started', 'running>completed:succeeded'];

afterEach(async () => {
  expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
});

type Late = LeasedTestJob & { spans?: Partial<LateJob> };

function complete(jobs: readonly Late[], { skipsLocked = false, on = db() as Queryable } = {}) {
  const finished = jobs.map((job) => lateJob(job, job.spans));
  const workerId = jobs[0]?.workerId ?? 0;
  return completeLateJobs(on, { workerId, finished, closedClaims: [] }, { skipsLocked });
}

async function whileHeld<T>({ id }: TestJob, work: () => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: ledger.db.url });
  await client.connect();
  try {
    await client.query('BEGIN');
    await client.query('SELECT FROM millrace.jobs WHERE id = $1 FOR NO KEY UPDATE', [id]);
    return await work();
  } finally {
    await client.end();
  }
}

describe('a job that is leased ahead', () => {
  test('reads scheduled, without an event and without a time of its claim', async () => {
    const job = await newJobAhead(ledger);
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({ state: 'scheduled', worker_id: job.workerId, claimed_at: null, attempts_started: 0 });
    expect(await ledger.pathOf(job)).toEqual([SUBMITTED]);
  });

  test('starts first where it has one attempt only, and where it was tried before', async () => {
    const lone = await newJobAhead(ledger, { policy: { maxAttempts: 1 } });
    const first = await ledger.start(await ledger.submitOne());
    await ledger.settle(first, { to: 'retrying', reason: 'temporary_failure', delayMs: 0 });
    const second = await leaseOneAhead(ledger, first);
    for (const job of [lone, second]) {
      expect(await ledger.rowOf(job)).toMatchObject({ state: 'scheduled', claimed_at: expect.any(Date) });
      expect((await complete([job])).landed.size).toBe(0);
      expect((await complete([job], { skipsLocked: true })).landed.size).toBe(0);
      const { started } = await startJobs(db(), { workerId: job.workerId, jobs: [job] });
      expect([...started.keys()]).toEqual([job.leaseSeq]);
    }
  });

  test('is not completed as if it had started', async () => {
    const job = await newJobAhead(ledger);
    const params = { workerId: job.workerId, finished: [lateJob(job)], closedClaims: [] };
    expect((await completeJobs(db(), params)).landed.size).toBe(0);
    expect(await ledger.pathOf(job)).toEqual([SUBMITTED]);
  });
});

describe('a late completion', () => {
  test('writes the start and the end, with the times that the handler had', async () => {
    const job = await newJobAhead(ledger);
    await ledger.moveClock(10_000);
    const { landed } = await complete([{ ...job, spans: { agoMs: 4_000, ranMs: 2_500 } }]);
    expect([...landed]).toEqual([job.leaseSeq]);
    expect(await ledger.pathOf(job)).toEqual(WHOLE);
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({ state: 'completed', attempts_started: 1, event_count: 3, result: { ok: true } });
    expect(row).toMatchObject({ worker_id: null, lease_seq: job.leaseSeq, started_lease_seq: job.leaseSeq });
    const { scheduled_at, started_at, completed_at, record_ids } = row as unknown as Record<string, Date> & {
      record_ids: number[];
    };
    expect(Number(completed_at) - Number(started_at)).toBe(4_000);
    expect(record_ids).toHaveLength(3);
    const [, start, end] = await ledger.eventsOf(job);
    expect(start).toMatchObject({ n: 2, attempt: 1, at: started_at, worker_id: job.workerId, lease_seq: job.leaseSeq });
    expect(start?.took_ms).toBeCloseTo(Number(started_at) - Number(scheduled_at), -1);
    expect(end).toMatchObject({ n: 3, attempt: 1, at: completed_at, worker_id: job.workerId, took_ms: 2_500 });
    const [attempt] = await jobAttempts(ledger.db.api, wholeOrg(job.orgId), job.id);
    expect(attempt).toMatchObject({ attempt: 1, startedAt: started_at, finishedAt: completed_at });
  });

  test('starts no job before it was ready, whatever its worker says', async () => {
    const job = await newJobAhead(ledger);
    await complete([{ ...job, spans: { agoMs: 3_600_000, ranMs: 5 } }]);
    const row = await ledger.rowOf(job);
    expect(row.started_at).toEqual(row.scheduled_at);
    expect((await ledger.eventsOf(job)).map((event) => event.took_ms)).toEqual([null, 0, 5]);
  });

  test('takes jobs of two orgs, and none whose lease was lost', async () => {
    const type = `shared-${await ledger.newOrg()}`;
    const workerId = await ledger.registerWorker();
    for (let count = 0; count < 3; count++) await ledger.submitOne({ type });
    const asked = { workerId, ranges: rangesOf({ jobType: type }), limit: 3, claimNo: 1 };
    const [one, two, lost] = (await leaseAhead(db(), asked)).jobs.map((job) => ({ ...job, workerId }));
    if (one === undefined || two === undefined || lost === undefined) throw new Error('three jobs are in line');
    await returnJobs(db(), { workerId, jobs: [lost], closedClaims: [] });
    expect((await complete([one, lost, two])).landed).toEqual(new Set([one.leaseSeq, two.leaseSeq]));
    expect(one.orgId).not.toBe(two.orgId);
    for (const job of [one, two]) expect(await ledger.pathOf(job)).toEqual(WHOLE);
    expect(await ledger.pathOf(lost)).toEqual([SUBMITTED]);
  });

  test('lands nothing once the job runs by another lease', async () => {
    const old = await newJobAhead(ledger);
    await returnJobs(db(), { workerId: old.workerId, jobs: [old], closedClaims: [] });
    const next = await leaseOneAhead(ledger, old, old.workerId);
    for (const skipsLocked of [false, true]) {
      const answer = await complete([old], { skipsLocked });
      expect([...answer.landed, ...answer.held]).toEqual([]);
    }
    expect([...(await checkLanded(db(), [old]))]).toEqual([]);
    expect([...(await complete([next])).landed]).toEqual([next.leaseSeq]);
    expect(await ledger.pathOf(old)).toEqual(WHOLE);
  });

  test('is recognised when its answer was lost, and repeated to no effect', async () => {
    const job = await newJobAhead(ledger);
    const client = await ledger.db.workers.connect();
    const broken: Queryable = {
      query: async (config) => {
        await client.query(config);
        client.release(true);
        throw Object.assign(new Error('the connection ended'), { code: 'ECONNRESET' });
      },
    };
    await expect(complete([job], { on: broken })).rejects.toThrow();
    expect([...(await complete([job])).landed]).toEqual([]);
    expect([...(await checkLanded(db(), [job]))]).toEqual([job.leaseSeq]);
    expect(await ledger.pathOf(job)).toEqual(WHOLE);
  });

  test('releases the jobs that wait for it', async () => {
    const job = await newJobAhead(ledger);
    const dependent = await ledger.submitOne({ orgId: job.orgId, dependsOn: [job] });
    // The submission leaves a row too, by which the releaser marks the job as one that others wait for.
    await releaseDependents(ledger.db.maintenance, 100);
    expect((await complete([job])).released).toBe(true);
    expect(await ledger.tokensOf(job, 'releases')).toBe(1);
    await releaseDependents(ledger.db.maintenance, 100);
    expect(await ledger.stateOf(dependent)).toBe('scheduled');
  });

  test('passes locked jobs by and names them', async () => {
    const held = await newJobAhead(ledger);
    const free = await leaseOneAhead(ledger, await ledger.submitOne(), held.workerId);
    await whileHeld(held, async () => {
      const answer = await complete([held, free], { skipsLocked: true });
      expect(answer).toEqual({ landed: new Set([free.leaseSeq]), held: new Set([held.leaseSeq]), released: false });
    });
    expect(await ledger.pathOf(held)).toEqual([SUBMITTED]);
    expect([...(await complete([held], { skipsLocked: true })).landed]).toEqual([held.leaseSeq]);
    expect(await ledger.pathOf(free)).toEqual(WHOLE);
  });
});

describe('a start that is written late', () => {
  test('counts from when the handler was called, and the attempt goes on as any other', async () => {
    const job = await newJobAhead(ledger);
    await ledger.moveClock(10_000);
    const jobs = [{ ...job, ranMs: 3_000 }];
    const { started } = await startJobs(db(), { workerId: job.workerId, jobs });
    expect(started.get(job.leaseSeq)).toEqual({ leaseSeq: job.leaseSeq, attemptsStarted: 1, assignedMs: null });
    const row = await ledger.rowOf(job);
    expect(Number(row.updated_at) - Number(row.started_at)).toBe(3_000);
    expect((await ledger.eventsOf(job)).at(-1)).toMatchObject({ to_state: 'running', detail: null });
    expect((await complete([job])).landed.size).toBe(0);
    expect(await ledger.settle(job, { to: 'completed', reason: 'succeeded' })).toBe(true);
    expect(await ledger.pathOf(job)).toEqual(WHOLE);
  });
});

describe('the rescue of a job that was leased ahead', () => {
  const stop = ({ workerId }: LeasedTestJob) =>
    ledger.db.api.query('UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE id = $1', [workerId]);
  const orphaned = async () => {
    const job = await newJobAhead(ledger, { policy: { maxAttempts: 2 } });
    await stop(job);
    return job;
  };
  const presume = async (job: LeasedTestJob) => {
    const beat = await ledger.beatOf(job.workerId);
    return (await presumeStarted(db(), { workerId: job.workerId, beat, jobs: [job] })).presumed.size;
  };

  test('presumes a start, says so, and gives another attempt for it', async () => {
    const job = await orphaned();
    expect(await presume(job)).toBe(1);
    expect(await presume(job)).toBe(0);
    const start = (await ledger.eventsOf(job)).at(-1);
    expect(start).toMatchObject({ attempt: 1, worker_id: job.workerId, detail: { presumed: true } });
    const lost = settled(job, { to: 'retrying', reason: 'worker_lost', delayMs: 0, refundsAttempt: true });
    const beat = await ledger.beatOf(job.workerId);
    await settleOrphans(db(), { workerId: job.workerId, beat, jobs: [lost] });
    expect(await ledger.rowOf(job)).toMatchObject({ state: 'scheduled', attempts_started: 1, max_attempts: 3 });
    expect((await complete([job])).landed.size).toBe(0);
    const next = await leaseOneAhead(ledger, job);
    expect(await ledger.rowOf(next)).toMatchObject({ claimed_at: expect.any(Date) });
    const { started } = await startJobs(db(), { workerId: next.workerId, jobs: [next] });
    expect(started.get(next.leaseSeq)).toMatchObject({ attemptsStarted: 2 });
  });

  test('presumes nothing of a job that another transaction holds, nor of a worker that lives', async () => {
    const held = await orphaned();
    await whileHeld(held, async () => expect(await presume(held)).toBe(0));
    expect(await presume(held)).toBe(1);
    const alive = await newJobAhead(ledger);
    expect(await presume(alive)).toBe(0);
    expect(await ledger.pathOf(alive)).toEqual([SUBMITTED]);
  });

  test('presumes nothing of a job that starts before it runs', async () => {
    const job = await newJobAhead(ledger, { policy: { maxAttempts: 1 } });
    await stop(job);
    expect(await presume(job)).toBe(0);
    expect(await ledger.pathOf(job)).toEqual([SUBMITTED]);
  });
});
