import { describe, expect, test } from 'vitest';
import { loadCheckpoint, reportProgress, saveCheckpoint } from '../../src/ledger/attempts/fenced-writes.ts';
import { heartbeat } from '../../src/ledger/attempts/heartbeat.ts';
import { listWorkers, registerWorker, stopWorker } from '../../src/ledger/attempts/workers.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { type LeasedTestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const NEW = { name: 'w-1', host: 'h-1', pid: 42, types: ['mail'], queues: ['q:default'], slots: 4 };

const workerOf = async (id: number) => (await listWorkers(ledger.db.api)).find((worker) => worker.id === id);
const cancel = (job: LeasedTestJob, force: boolean) =>
  cancelJobs(ledger.db.api, { projectId: null, orgId: job.orgId, ids: [job.id], reason: null, actor: null, force });

/** Lets the running attempt fail and another worker start the next. */
async function takeAway(job: LeasedTestJob): Promise<LeasedTestJob> {
  await ledger.settle(job, { to: 'retrying', reason: 'worker_lost', delayMs: 0 });
  return ledger.start(job);
}

describe('workers', () => {
  test('register and stop', async () => {
    const id = await registerWorker(ledger.db.workers, NEW);
    expect(await workerOf(id)).toMatchObject({ ...NEW, id, stoppedAt: null });
    expect(await stopWorker(ledger.db.workers, id)).toBe(true);
    expect((await workerOf(id))?.stoppedAt).toBeInstanceOf(Date);
    expect(await stopWorker(ledger.db.workers, id)).toBe(false);
  });

  test('silence is measured by the database clock and ends with a beat', async () => {
    const id = await registerWorker(ledger.db.workers, NEW);
    await ledger.moveClock(10_000);
    expect((await workerOf(id))?.silentMs).toBeGreaterThanOrEqual(10_000);
    expect(await heartbeat(ledger.db.workers, { workerId: id, jobs: [] })).toEqual({
      alive: true,
      lost: [],
      cancels: [],
    });
    expect((await workerOf(id))?.silentMs).toBeLessThan(10_000);
  });
});

describe('heartbeat', () => {
  test('a stopped or unknown worker learns that it is not alive', async () => {
    const id = await registerWorker(ledger.db.workers, NEW);
    await stopWorker(ledger.db.workers, id);
    expect((await heartbeat(ledger.db.workers, { workerId: id, jobs: [] })).alive).toBe(false);
    expect((await heartbeat(ledger.db.workers, { workerId: 999_999_999, jobs: [] })).alive).toBe(false);
  });

  test('one beat tells which jobs were lost and which are to be cancelled [GA-3.11] [GA-3.12]', async () => {
    const workerId = await ledger.registerWorker();
    const start = async () => ledger.start(await ledger.submitOne(), workerId);
    const [kept, soft, forced, ended, taken] = [await start(), await start(), await start(), await start(), await start()];
    const leased = await ledger.lease(await ledger.submitOne(), workerId);
    await cancel(soft, false);
    await cancel(forced, true);
    await ledger.settle(ended, { to: 'completed', reason: 'succeeded' });
    await takeAway(taken);
    const beat = await heartbeat(ledger.db.workers, { workerId, jobs: [kept, soft, forced, ended, taken, leased] });
    expect(beat.alive).toBe(true);
    expect(beat.lost.toSorted()).toEqual([ended.leaseSeq, taken.leaseSeq].toSorted());
    expect(beat.cancels).toEqual([
      { leaseSeq: soft.leaseSeq, force: false },
      { leaseSeq: forced.leaseSeq, force: true },
    ]);
  });

  test('a job presented under the wrong org or by the wrong worker is not held', async () => {
    const job = await ledger.start(await ledger.submitOne());
    const stranger = { ...job, orgId: await ledger.newOrg() };
    expect((await heartbeat(ledger.db.workers, { workerId: job.workerId, jobs: [stranger] })).lost).toEqual([job.leaseSeq]);
    const other = await ledger.registerWorker();
    expect((await heartbeat(ledger.db.workers, { workerId: other, jobs: [job] })).lost).toEqual([job.leaseSeq]);
  });
});

describe('progress and checkpoints', () => {
  const state = new Uint8Array([1, 0, 255]);

  test('land while the lease holds, and bring word of a cancellation [GA-3.11]', async () => {
    const job = await ledger.start(await ledger.submitOne());
    expect(await reportProgress(ledger.db.workers, { ...job, percent: 10, message: null })).toEqual({
      landed: true,
      cancelRequested: null,
    });
    expect(await saveCheckpoint(ledger.db.workers, { ...job, state })).toEqual({ landed: true, cancelRequested: null });
    await cancel(job, false);
    expect(await saveCheckpoint(ledger.db.workers, { ...job, state })).toEqual({
      landed: true,
      cancelRequested: 'soft',
    });
    await cancel(job, true);
    expect(await reportProgress(ledger.db.workers, { ...job, percent: 20, message: null })).toEqual({
      landed: true,
      cancelRequested: 'force',
    });
  });

  test('do not land for an attempt that lost the job, nor for one that ended', async () => {
    const first = await ledger.start(await ledger.submitOne());
    const second = await takeAway(first);
    await saveCheckpoint(ledger.db.workers, { ...second, state });
    const lost = { landed: false, cancelRequested: null };
    expect(await saveCheckpoint(ledger.db.workers, { ...first, state: new Uint8Array([9]) })).toEqual(lost);
    expect(await reportProgress(ledger.db.workers, { ...first, percent: 99, message: null })).toEqual(lost);
    expect((await loadCheckpoint(ledger.db.workers, second)).checkpoint?.state).toEqual(state);
    await ledger.settle(second, { to: 'completed', reason: 'succeeded' });
    expect(await reportProgress(ledger.db.workers, { ...second, percent: 100, message: null })).toEqual(lost);
  });

  test('the state an attempt saved is there for the next [GA-5.22] [GA-5.23]', async () => {
    const first = await ledger.start(await ledger.submitOne());
    expect(await loadCheckpoint(ledger.db.workers, first)).toEqual({ checkpoint: null });
    await saveCheckpoint(ledger.db.workers, { ...first, state: new Uint8Array([7]) });
    await saveCheckpoint(ledger.db.workers, { ...first, state });
    const second = await takeAway(first);
    const { checkpoint } = await loadCheckpoint(ledger.db.workers, second);
    expect(checkpoint).toMatchObject({ state, leaseSeq: first.leaseSeq });
    const foreign = { ...second, orgId: await ledger.newOrg() };
    expect(await loadCheckpoint(ledger.db.workers, foreign)).toEqual({ checkpoint: null });
  });
});
