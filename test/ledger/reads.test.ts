import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { attemptIdOf } from '../../src/core/ids.ts';
import { wholeOrg } from '../../src/core/owner.ts';
import { reportProgress } from '../../src/ledger/attempts/fenced-writes.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { getJob, getJobs } from '../../src/ledger/reads/get-job.ts';
import { jobAttempts } from '../../src/ledger/reads/job-attempts.ts';
import { historiesOfOrgs } from '../../src/ledger/reads/job-history.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const BOOM = { category: 'PERMANENT', code: 'BOOM', message: 'it broke', stackTrace: 'at x', context: { step: '2' } };

const read = async ({ orgId, id }: TestJob) => {
  const job = await getJob(ledger.db.api, wholeOrg(orgId), id, { payload: true, result: true });
  if (job === null) throw new Error('the job is gone');
  return job;
};

describe('getJob', () => {
  test('shows the submitted values [GM-10.01] [GM-10.10] [GM-10.11] [GM-10.12] [GM-10.13] [GM-10.14] [GA-2.05] [GA-2.16] [GA-2.17] [GA-2.18]', async () => {
    const submitted = await ledger.submitOne({
      job: {
        priority: 1,
        tags: { team: 'blue' },
        correlationId: 'trace-1',
        callbackUrl: 'https://example.org/done',
        payload: { kind: 'json', text: '{"big":12345678901234567890}' },
      },
    });
    expect(await read(submitted)).toMatchObject({
      id: submitted.id,
      seq: submitted.seq,
      type: submitted.jobType,
      priority: 'HIGH',
      tags: { team: 'blue' },
      correlationId: 'trace-1',
      callbackUrl: 'https://example.org/done',
      payload: { kind: 'json', text: '{"big":12345678901234567890}' },
      dependsOn: [],
      parentId: null,
      lastFailure: null,
    });
  });

  test('a job that waits for a worker has its times and no start [GM-10.02] [GM-10.04] [GM-10.06] [GA-2.10] [GA-2.11] [GA-2.12]', async () => {
    const job = await read(await ledger.submitOne());
    expect(job).toMatchObject({ state: 'scheduled', startedAt: null, completedAt: null, attempt: 1 });
    expect(job.scheduledAt).toEqual(job.createdAt);
    expect(job.scheduledFor).toEqual(job.createdAt);
    expect(job.result).toBeUndefined();
    expect(job.progress).toBeUndefined();
  });

  test('a delayed job tells when it may start, a pending one does not [GA-2.10]', async () => {
    const delayed = await read(await ledger.putJob('delayed'));
    expect(delayed.scheduledFor?.getTime()).toBe(delayed.createdAt.getTime() + 60_000);
    expect(delayed.scheduledAt).toBeNull();
    const pending = await ledger.putJob('pending');
    expect(await read(pending)).toMatchObject({ scheduledFor: null, dependencyType: 'AFTER' });
    expect((await read(pending)).dependsOn).toHaveLength(1);
  });

  test('a job never ends before it started, though the statement that ended it read the clock before', async () => {
    const put = await ledger.putJob('completed');
    const late = `UPDATE millrace.jobs SET started_at = completed_at + interval '1 ms' WHERE id = $1`;
    await ledger.db.api.query(late, [put.id]);
    const job = await read(put);
    expect([job.completedAt, job.completedAt]).toEqual([job.startedAt, expect.any(Date)]);
  });

  test('the attempt is counted from one and grows when the job starts [GM-10.05] [GM-10.07] [GA-2.07]', async () => {
    const job = await ledger.putJob('retrying');
    expect(await read(job)).toMatchObject({ attempt: 1, attemptsStarted: 1, lastFailure: { code: 'BOOM' } });
    await retryNow(job);
    await ledger.start(job);
    const again = await read(job);
    expect(again).toMatchObject({ attempt: 2, attemptsStarted: 2, state: 'running' });
    expect(again.startedAt).toEqual(again.updatedAt);
  });

  test('a completed job has the output as result [GA-2.22] [GA-2.23] [GA-2.25] [GA-2.26] [GM-10.08]', async () => {
    const running = await ledger.start(await ledger.submitOne());
    await ledger.moveClock(1_500);
    await ledger.settle(running, { to: 'completed', reason: 'succeeded', result: '{"answer": 42}' });
    const job = await read(running);
    expect(job.result).toMatchObject({
      status: 'SUCCESS',
      output: { kind: 'json', text: '{"answer": 42}' },
      error: null,
      attempt: 1,
    });
    expect(job.result?.durationMs).toBeGreaterThanOrEqual(1_500);
    expect(job.completedAt).toEqual(job.updatedAt);
  });

  test('a result of bytes comes back as bytes [GA-2.23]', async () => {
    const running = await ledger.start(await ledger.submitOne());
    await ledger.settle(running, { to: 'completed', reason: 'succeeded', resultBytes: new Uint8Array([0, 255]) });
    const output = (await read(running)).result?.output;
    expect(output?.kind === 'bytes' && [...output.bytes]).toEqual([0, 255]);
  });

  test.each(['failed', 'dead_letter'] as const)('a %s job has a failure as result [GA-2.14] [GA-2.24]', async (state) => {
    const job = await read(await ledger.putJob(state));
    expect(job.result).toMatchObject({
      status: 'FAILURE',
      output: null,
      error: { code: 'BOOM', message: 'it broke' },
    });
  });

  test('a cancelled job has a result only if an attempt ran, which lasted as long as it ran [GA-2.14] [GA-2.25]', async () => {
    expect((await read(await ledger.putJob('cancelled'))).result).toBeUndefined();
    const retrying = await ledger.putJob('retrying');
    await ledger.moveClock(30_000);
    await cancelJobs(ledger.db.api, {
      projectId: null,
      orgId: retrying.orgId,
      ids: [retrying.id],
      reason: null,
      actor: null,
      force: false,
    });
    const { result } = await read(retrying);
    expect(result?.status).toBe('FAILURE');
    expect(result?.durationMs).toBeLessThan(30_000);
  });

  test('progress is shown with its own time and moves no other [GA-2.13] [GA-2.19] [GA-2.20] [GA-2.21] [GM-10.03]', async () => {
    const running = await ledger.start(await ledger.submitOne());
    const before = await read(running);
    await ledger.moveClock(2_000);
    await reportProgress(ledger.db.workers, { ...running, percent: 40, message: 'halfway there' });
    const after = await read(running);
    expect(after.progress).toMatchObject({ percent: 40, message: 'halfway there' });
    expect(after.progress?.updatedAt.getTime()).toBeGreaterThanOrEqual(before.updatedAt.getTime() + 2_000);
    expect(after.updatedAt).toEqual(before.updatedAt);
  });

  test('a child names its parent, a request to cancel its time [GA-3.11]', async () => {
    const parent = await ledger.start(await ledger.submitOne());
    const child = await ledger.submitOne({
      orgId: parent.orgId,
      placement: { parentSeq: parent.seq, joinsParent: true },
    });
    expect((await read(child)).parentId).toBe(parent.id);
    await cancelJobs(ledger.db.api, {
      projectId: null,
      orgId: parent.orgId,
      ids: [parent.id],
      reason: 'enough',
      actor: null,
      force: false,
    });
    expect((await read(parent)).cancelRequestedAt).toBeInstanceOf(Date);
  });

  test('a job of another org does not exist', async () => {
    const job = await ledger.submitOne();
    const stranger = await ledger.newOrg();
    expect(await getJob(ledger.db.api, wholeOrg(stranger), job.id)).toBeNull();
    expect(await historiesOfOrgs(ledger.db.api, [{ projectId: null, orgId: stranger, id: job.id }])).toEqual([[]]);
    expect(await jobAttempts(ledger.db.api, wholeOrg(stranger), job.id)).toEqual([]);
    expect(await getJob(ledger.db.api, wholeOrg(job.orgId), randomUUID())).toBeNull();
  });

  test('several jobs come in the order asked for, the missing left out', async () => {
    const orgId = await ledger.newOrg();
    const [first, second] = [await ledger.submitOne({ orgId }), await ledger.submitOne({ orgId })];
    const found = await getJobs(ledger.db.api, wholeOrg(orgId), [second.id, randomUUID(), first.id]);
    expect(found.map((job) => job.id)).toEqual([second.id, first.id]);
  });
});

describe('historiesOfOrgs', () => {
  test('returns every transition in order with its reason and actor [GA-2.31] [GA-2.32] [GA-2.33] [GA-2.34]', async () => {
    const running = await ledger.start(await ledger.submitOne({ actor: 'api_key:k1' }));
    await ledger.settle(running, { to: 'failed', reason: 'permanent_failure', failure: JSON.stringify(BOOM) });
    const [history = []] = await historiesOfOrgs(ledger.db.api, [running]);
    expect(history.map(({ from, to, reason, attempt }) => [from, to, reason, attempt])).toEqual([
      ['pending', 'scheduled', 'submitted', 0],
      ['scheduled', 'running', 'started', 1],
      ['running', 'failed', 'permanent_failure', 1],
    ]);
    expect(history[0]?.actor).toEqual({ type: 'api_key', id: 'k1' });
    expect(history.every(({ at }) => at instanceof Date)).toBe(true);
    expect(history[2]?.at).toEqual((await read(running)).completedAt);
  });

  test('a job that waits for others is born pending [GA-2.31]', async () => {
    const pending = await ledger.putJob('pending');
    const [history = []] = await historiesOfOrgs(ledger.db.api, [pending]);
    expect(history[0]).toMatchObject({ from: null, to: 'pending', reason: 'submitted' });
  });
});

describe('jobAttempts', () => {
  test('tells each attempt with its worker and its failure [GA-4.08] [GA-4.16] [GA-4.17] [GA-4.18] [GA-4.19] [GA-4.20] [GA-4.21] [GA-4.22] [GA-4.23]', async () => {
    const job = await ledger.submitOne();
    const first = await ledger.start(job, await ledger.registerWorker('amber'));
    await ledger.settle(first, {
      to: 'retrying',
      reason: 'temporary_failure',
      failure: JSON.stringify(BOOM),
      delayMs: 0,
    });
    const second = await ledger.start(job, await ledger.registerWorker('birch'));
    const attempts = await jobAttempts(ledger.db.api, wholeOrg(job.orgId), job.id);
    expect(attempts).toMatchObject([
      {
        attempt: 1,
        attemptId: attemptIdOf(job.id, first.leaseSeq),
        result: 'FAILURE',
        failure: BOOM,
        workerId: 'amber',
        host: 'host-1',
        round: 0,
      },
      {
        attempt: 2,
        attemptId: attemptIdOf(job.id, second.leaseSeq),
        result: null,
        failure: null,
        workerId: 'birch',
        finishedAt: null,
      },
    ]);
    expect(attempts[0]?.finishedAt?.getTime()).toBeGreaterThanOrEqual(attempts[0]?.startedAt.getTime() ?? Number.NaN);
    await ledger.settle(second, { to: 'completed', reason: 'succeeded' });
    expect((await jobAttempts(ledger.db.api, wholeOrg(job.orgId), job.id))[1]).toMatchObject({
      result: 'SUCCESS',
      failure: null,
    });
  });

  test('a timeout and a cancellation are results of their own [GA-4.22] [GA-4.23]', async () => {
    const slow = await ledger.start(await ledger.submitOne());
    const timeout = { category: 'TIMEOUT', code: 'EXECUTION_TIMEOUT', message: 'too slow' };
    await ledger.settle(slow, {
      to: 'retrying',
      reason: 'timed_out',
      failure: JSON.stringify(timeout),
      delayMs: 1_000,
    });
    expect(await jobAttempts(ledger.db.api, wholeOrg(slow.orgId), slow.id)).toMatchObject([{ result: 'TIMEOUT', failure: timeout }]);
    const stopped = await ledger.start(await ledger.submitOne());
    await ledger.settle(stopped, { to: 'cancelled', reason: 'cancelled' });
    expect(await jobAttempts(ledger.db.api, wholeOrg(stopped.orgId), stopped.id)).toMatchObject([
      { result: 'CANCELLED', failure: { category: 'CANCELLED', code: 'CANCELLED' } },
    ]);
  });

  test('attempts before a reset keep their round [GA-4.19]', async () => {
    const job = await ledger.putJob('failed');
    await retryJob(ledger.db.api, {
      projectId: null,
      orgId: job.orgId,
      id: job.id,
      resetAttempts: true,
      priority: null,
      delayMs: null,
      actor: null,
    });
    await ledger.start(job);
    const attempts = await jobAttempts(ledger.db.api, wholeOrg(job.orgId), job.id);
    expect(attempts.map(({ attempt, round }) => [attempt, round])).toEqual([
      [1, 0],
      [1, 1],
    ]);
  });
});

/** Brings a retrying job back in line as the stager would. */
async function retryNow(job: TestJob): Promise<void> {
  await ledger.moveClock(61_000);
  await stageJobs(ledger.db.maintenance, { limit: 1_000, floor: null });
  expect(await ledger.stateOf(job)).toBe('scheduled');
}
