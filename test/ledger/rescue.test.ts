import { describe, expect, test } from 'vitest';
import { buryWorkers, findOrphans } from '../../src/ledger/attempts/find-orphans.ts';
import { returnExpired } from '../../src/ledger/attempts/return-jobs.ts';
import { checkLanded, settleJobs } from '../../src/ledger/attempts/settle-jobs.ts';
import { settleOrphans } from '../../src/ledger/attempts/settle-orphans.ts';
import { stopWorker } from '../../src/ledger/attempts/workers.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { type LeasedTestJob, settled, useLedger } from './fixture.ts';

const ledger = useLedger();
const LEASE_MS = 60_000;
const DAY = 86_400_000;
const LOST = JSON.stringify({ category: 'SYSTEM', code: 'WORKER_LOST', message: 'gone' });
const REQUEUE = { to: 'retrying', reason: 'worker_lost', delayMs: 0, failure: LOST } as const;

const running = async (leaseMs = LEASE_MS) => ledger.start(await ledger.submitOne({ policy: { leaseMs } }));

const orphansOf = async (workerId: number) =>
  (await findOrphans(ledger.db.maintenance, 1_000)).filter((orphan) => orphan.workerId === workerId);

/** By a rescuer that saw this beat; without one, the newest. */
const rescue = async (job: LeasedTestJob, seen?: number | null) => {
  const beat = seen === undefined ? await ledger.beatOf(job.workerId) : seen;
  const params = { workerId: job.workerId, beat, jobs: [settled(job, REQUEUE)] };
  return (await settleOrphans(ledger.db.maintenance, params)).landed.has(job.leaseSeq);
};

const returned = async (job: LeasedTestJob) => {
  const beat = await ledger.beatOf(job.workerId);
  return (await returnExpired(ledger.db.maintenance, { workerId: job.workerId, beat, jobs: [job] })).landed.size;
};

const claimsOf = async (workerId: number) =>
  (await ledger.db.api.query('SELECT FROM millrace.claims WHERE worker_id = $1', [workerId])).rowCount;

describe('an orphan', () => {
  test('is found once its worker has been silent for the lease of that job [GM-4.02] [GM-4.12]', async () => {
    const workerId = await ledger.registerWorker();
    const short = await ledger.start(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } }), workerId);
    const long = await ledger.start(await ledger.submitOne({ policy: { leaseMs: 10 * LEASE_MS } }), workerId);
    const leased = await ledger.lease(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } }), workerId);
    await ledger.moveClock(LEASE_MS / 2);
    expect(await orphansOf(workerId)).toEqual([]);
    await ledger.moveClock(LEASE_MS);
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
    await cancelJobs(ledger.db.api, { projectId: null, orgId: job.orgId, ids: [job.id], reason: null, actor: null, force: false });
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
    await ledger.db.api.query('UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE id = $1', [stopped.workerId]);
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
    expect((await ledger.pathOf(job)).slice(-2)).toEqual(['running>retrying:worker_lost', 'retrying>scheduled:worker_lost']);
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

  test('of a worker that beat since the rescuer looked is refused, though the clock says it is silent', async () => {
    const job = await running();
    const seen = await ledger.beatOf(job.workerId);
    await ledger.beat(job.workerId);
    await ledger.moveClock(LEASE_MS + 1_000);
    expect(await rescue(job, seen)).toBe(false);
    expect(await rescue(job)).toBe(true);
  });

  test('leaves a worker alone while its heartbeat is under way, and does not wait for it', async () => {
    const job = await running();
    const leased = await ledger.lease(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } }), job.workerId);
    await ledger.moveClock(LEASE_MS + 1_000);
    await holding('UPDATE millrace.workers SET beat_at = millrace.clock() WHERE id = $1', job.workerId, async () => {
      expect([await rescue(job), await returned(leased)]).toEqual([false, 0]);
    });
    expect(await ledger.stateOf(job)).toBe('running');
  });

  test('takes the free jobs and does not wait for jobs that a transaction holds', async () => {
    const workerId = await ledger.registerWorker();
    const start = async () => ledger.start(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } }), workerId);
    const lease = async () => ledger.lease(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } }), workerId);
    const [held, free, heldLease, freeLease] = [await start(), await start(), await lease(), await lease()];
    await ledger.moveClock(LEASE_MS + 1_000);
    const beat = await ledger.beatOf(workerId);
    await holding('SELECT FROM millrace.jobs WHERE seq = ANY ($1) FOR UPDATE', [held.seq, heldLease.seq], async () => {
      const jobs = [settled(held, REQUEUE), settled(free, REQUEUE)];
      const ended = await settleOrphans(ledger.db.maintenance, { workerId, beat, jobs });
      expect([...ended.landed]).toEqual([free.leaseSeq]);
      const back = await returnExpired(ledger.db.maintenance, { workerId, beat, jobs: [heldLease, freeLease] });
      expect([...back.landed]).toEqual([freeLease.leaseSeq]);
    });
    expect([await rescue(held), await returned(heldLease)]).toEqual([true, 1]);
  });

  test('never overwrites a job that ends at the same moment', async () => {
    const job = await running();
    await ledger.moveClock(LEASE_MS + 1_000);
    const worker = await ledger.db.workers.connect();
    await worker.query('BEGIN');
    const completed = settled(job, { to: 'completed', reason: 'succeeded' });
    await settleJobs(worker, { workerId: job.workerId, jobs: [completed], by: 'lease', closedClaims: [] });
    expect(await rescue(job)).toBe(false);
    await worker.query('COMMIT');
    worker.release();
    expect(await rescue(job)).toBe(false);
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
  test('clears the claims of stopped workers that hold nothing, and keeps those that do', async () => {
    const job = await running();
    await stopWorker(ledger.db.workers, job.workerId);
    await buryWorkers(ledger.db.maintenance);
    expect(await claimsOf(job.workerId)).toBe(1);
    await rescue(job);
    await buryWorkers(ledger.db.maintenance);
    expect(await claimsOf(job.workerId)).toBe(0);
  });

  test('keeps the claims of a worker that only looks silent, and the worker, whatever the clock says', async () => {
    const job = await running();
    await ledger.settle(job, { to: 'completed', reason: 'succeeded' });
    await ledger.moveClock(400 * DAY);
    await buryWorkers(ledger.db.maintenance);
    expect(await claimsOf(job.workerId)).toBe(1);
    expect((await workerOf(job.workerId))?.stopped_at).toBeNull();
  });

  test('forgets a stopped worker after 90 days', async () => {
    const workerId = await ledger.registerWorker();
    await stopWorker(ledger.db.workers, workerId);
    await ledger.moveClock(89 * DAY);
    await buryWorkers(ledger.db.maintenance);
    expect(await workerOf(workerId)).toBeDefined();
    await ledger.moveClock(2 * DAY);
    await buryWorkers(ledger.db.maintenance);
    expect(await workerOf(workerId)).toBeUndefined();
  });
});

const workerOf = async (workerId: number): Promise<{ stopped_at: Date | null } | undefined> =>
  (await ledger.db.api.query('SELECT stopped_at FROM millrace.workers WHERE id = $1', [workerId])).rows[0];

/** Runs `work` while another transaction holds what the statement locks. */
async function holding(text: string, value: unknown, work: () => Promise<void>): Promise<void> {
  const client = await ledger.db.workers.connect();
  await client.query('BEGIN');
  await client.query(text, [value]);
  await work().finally(() => client.query('COMMIT'));
  client.release();
}
