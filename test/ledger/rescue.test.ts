import { describe, expect, test } from 'vitest';
import { cancelJobs } from '../../src/ledger/cancel-jobs.ts';
import { buryWorkers, findOrphans } from '../../src/ledger/find-orphans.ts';
import { returnExpired } from '../../src/ledger/return-jobs.ts';
import { checkLanded, settleJobs } from '../../src/ledger/settle-jobs.ts';
import { type LeasedTestJob, settled, useLedger } from './fixture.ts';

const ledger = useLedger();
const LEASE_MS = 60_000;
const DAY = 86_400_000;
const LOST = JSON.stringify({ category: 'SYSTEM', code: 'WORKER_LOST', message: 'gone' });
const REQUEUE = { to: 'retrying', reason: 'worker_lost', delayMs: 0, failure: LOST } as const;

const running = async (leaseMs = LEASE_MS) => ledger.start(await ledger.submitOne({ policy: { leaseMs } }));

const orphansOf = async (workerId: number) =>
  (await findOrphans(ledger.db.maintenance, 1_000)).filter((orphan) => orphan.workerId === workerId);

const rescue = async (job: LeasedTestJob) => {
  const params = {
    workerId: job.workerId,
    jobs: [settled(job, REQUEUE)],
    by: 'dead_worker',
    closedClaims: [],
  } as const;
  return (await settleJobs(ledger.db.maintenance, params)).landed.has(job.leaseSeq);
};

const claimsOf = async (workerId: number) =>
  (await ledger.db.api.query('SELECT FROM millrace.claims WHERE worker_id = $1', [workerId])).rowCount;

describe('an orphan', () => {
  test('is found once its worker has been silent for the lease of that job [GM-4.02] [GM-4.12]', async () => {
    const workerId = await ledger.registerWorker();
    const short = await ledger.start(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } }), workerId);
    const long = await ledger.start(await ledger.submitOne({ policy: { leaseMs: 10 * LEASE_MS } }), workerId);
    const leased = await ledger.lease(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } }), workerId);
    await ledger.moveClock(LEASE_MS - 1_000);
    expect(await orphansOf(workerId)).toEqual([]);
    await ledger.moveClock(2_000);
    expect((await orphansOf(workerId)).map(({ seq, state }) => ({ seq, state }))).toEqual([
      { seq: short.seq, state: 'running' },
      { seq: leased.seq, state: 'scheduled' },
    ]);
    await ledger.moveClock(10 * LEASE_MS);
    expect((await orphansOf(workerId)).map((orphan) => orphan.seq)).toContain(long.seq);
    await ledger.beat(workerId);
    expect(await orphansOf(workerId)).toEqual([]);
  });

  test('comes with all that decides about it', async () => {
    const job = await running();
    await cancelJobs(ledger.db.api, { orgId: job.orgId, ids: [job.id], reason: null, actor: null, force: false });
    await ledger.moveClock(LEASE_MS + 1_000);
    const [orphan] = await orphansOf(job.workerId);
    expect(orphan).toMatchObject({
      orgId: job.orgId,
      seq: job.seq,
      id: job.id,
      leaseSeq: job.leaseSeq,
      attemptsStarted: 1,
      maxAttempts: 3,
      jobType: job.jobType,
      cancelRequested: true,
    });
    expect(orphan?.lifetimeLeftMs).toBeGreaterThan(6 * DAY);
  });

  test('is found at once when its worker stopped, and when its worker is unknown', async () => {
    const stopped = await running();
    await ledger.db.api.query('UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE id = $1', [
      stopped.workerId,
    ]);
    expect(await orphansOf(stopped.workerId)).toHaveLength(1);
    const unknown = await running();
    await ledger.db.api.query('DELETE FROM millrace.workers WHERE id = $1', [unknown.workerId]);
    expect(await orphansOf(unknown.workerId)).toHaveLength(1);
    expect(await rescue(unknown)).toBe(true);
  });

  test('no longer is one when it ended or another worker has it', async () => {
    const ended = await running();
    await ledger.settle(ended, { to: 'completed', reason: 'succeeded' });
    const passedOn = await running();
    await ledger.settle(passedOn, { to: 'retrying', reason: 'released', delayMs: 0 });
    await ledger.moveClock(LEASE_MS + 1_000);
    await ledger.start(passedOn);
    expect([...(await orphansOf(ended.workerId)), ...(await orphansOf(passedOn.workerId))]).toEqual([]);
  });
});

describe('the rescue', () => {
  test('takes a job from a silent worker and schedules it again [GM-4.07]', async () => {
    const job = await running();
    await ledger.moveClock(LEASE_MS + 1_000);
    expect(await rescue(job)).toBe(true);
    expect(await ledger.rowOf(job)).toMatchObject({
      state: 'scheduled',
      attempt_slot: 2,
      worker_id: null,
      max_attempts: 3,
    });
    expect((await ledger.pathOf(job)).slice(-2)).toEqual([
      'running>retrying:worker_lost',
      'retrying>scheduled:worker_lost',
    ]);
    expect((await ledger.start(job)).started.attemptsStarted).toBe(2);
  });

  test('of a worker that came back is refused', async () => {
    const job = await running();
    await ledger.moveClock(LEASE_MS + 1_000);
    expect(await orphansOf(job.workerId)).toHaveLength(1);
    await ledger.beat(job.workerId);
    expect(await rescue(job)).toBe(false);
    expect(await ledger.stateOf(job)).toBe('running');
  });

  test('waits for a heartbeat under way and then is refused', async () => {
    const job = await running();
    const leased = await ledger.lease(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } }), job.workerId);
    await ledger.moveClock(LEASE_MS + 1_000);
    const worker = await ledger.db.workers.connect();
    await worker.query('BEGIN');
    await worker.query('UPDATE millrace.workers SET beat_at = millrace.clock() WHERE id = $1', [job.workerId]);
    const rescued = rescue(job);
    const returned = returnExpired(ledger.db.maintenance, { workerId: job.workerId, jobs: [leased] });
    await ledger.untilBlocked();
    await worker.query('COMMIT');
    worker.release();
    expect([await rescued, (await returned).landed.size]).toEqual([false, 0]);
    expect(await ledger.stateOf(job)).toBe('running');
  });

  test('never overwrites a job that ends at the same moment', async () => {
    const job = await running();
    await ledger.moveClock(LEASE_MS + 1_000);
    const worker = await ledger.db.workers.connect();
    await worker.query('BEGIN');
    const completed = settled(job, { to: 'completed', reason: 'succeeded' });
    await settleJobs(worker, { workerId: job.workerId, jobs: [completed], by: 'lease', closedClaims: [] });
    const rescued = rescue(job);
    await ledger.untilBlocked();
    await worker.query('COMMIT');
    worker.release();
    expect(await rescued).toBe(false);
    expect((await ledger.pathOf(job)).at(-1)).toBe('running>completed:succeeded');
  });

  test('leaves the lost worker without a say: its late result is refused and was not its own end [GM-7.02]', async () => {
    const job = await running();
    await ledger.moveClock(LEASE_MS + 1_000);
    await rescue(job);
    expect(await ledger.settle(job, { to: 'completed', reason: 'succeeded' })).toBe(false);
    expect(await checkLanded(ledger.db.workers, [job])).toEqual(new Set());
    expect(await ledger.stateOf(job)).toBe('scheduled');
  });
});

describe('the burial', () => {
  test('clears the claims of silent workers that hold nothing, and keeps those that do', async () => {
    const job = await running();
    await ledger.moveClock(LEASE_MS + 1_000);
    await buryWorkers(ledger.db.maintenance);
    expect(await claimsOf(job.workerId)).toBe(1);
    await rescue(job);
    await buryWorkers(ledger.db.maintenance);
    expect(await claimsOf(job.workerId)).toBe(0);
  });

  test('keeps the claims of a worker that beats', async () => {
    const job = await running();
    await ledger.settle(job, { to: 'completed', reason: 'succeeded' });
    await buryWorkers(ledger.db.maintenance);
    expect(await claimsOf(job.workerId)).toBe(1);
  });

  test('marks a worker silent for a day as stopped and forgets it much later', async () => {
    const workerId = await ledger.registerWorker();
    const read = async () =>
      (await ledger.db.api.query('SELECT stopped_at FROM millrace.workers WHERE id = $1', [workerId])).rows[0];
    await ledger.moveClock(DAY - 1_000);
    await buryWorkers(ledger.db.maintenance);
    expect(await read()).toEqual({ stopped_at: null });
    await ledger.moveClock(2_000);
    await buryWorkers(ledger.db.maintenance);
    expect(await read()).toEqual({ stopped_at: expect.any(Date) });
    await ledger.moveClock(91 * DAY);
    await buryWorkers(ledger.db.maintenance);
    expect(await read()).toBeUndefined();
  });
});
