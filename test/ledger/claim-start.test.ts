import { describe, expect, test } from 'vitest';
import { claimJobs } from '../../src/ledger/attempts/claim-jobs.ts';
import { returnExpired, returnJobs } from '../../src/ledger/attempts/return-jobs.ts';
import { startJobs } from '../../src/ledger/attempts/start-jobs.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { lockParent } from '../../src/ledger/jobs/guard-parent.ts';
import { rangesOf, useLedger } from './fixture.ts';
import { stopClock } from './set-clock.ts';

const ledger = useLedger();
const db = () => ledger.db.workers;

describe('a claim', () => {
  test('leases a scheduled job without a transition; the start makes it run [GM-2.05] [GM-2.14] [GM-5.11]', async () => {
    const job = await ledger.submitOne();
    const leased = await ledger.lease(job);
    expect(await ledger.rowOf(job)).toMatchObject({
      state: 'scheduled',
      worker_id: leased.workerId,
      attempts_started: 0,
    });
    expect(await ledger.eventsOf(job)).toHaveLength(1);
    expect(await ledger.tokensOf(job, 'ready')).toBe(0);
    const { started } = await startJobs(db(), { workerId: leased.workerId, jobs: [leased] });
    expect(started.get(leased.leaseSeq)).toMatchObject({ attemptsStarted: 1 });
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({ state: 'running', attempts_started: 1, started_lease_seq: leased.leaseSeq });
    expect(row.started_at).toEqual(row.updated_at);
    expect((await ledger.eventsOf(job)).at(-1)).toMatchObject({ n: 2, reason: 'started', worker_id: leased.workerId });
  });

  test('takes the most urgent first and those submitted first among equals [GM-3.07] [GM-3.08]', async () => {
    const orgId = await ledger.newOrg();
    const type = `mixed-${orgId}`;
    const submit = (priority: number) => ledger.submitOne({ orgId, type, job: { priority } });
    const late = await submit(2);
    const low = await submit(3);
    const first = await submit(0);
    const second = await submit(0);
    const workerId = await ledger.registerWorker();
    const order: number[] = [];
    for (let claimNo = 1; claimNo <= 4; claimNo++) {
      const asked = { workerId, ranges: rangesOf({ jobType: type }), limit: 1, claimNo };
      order.push((await claimJobs(db(), asked)).jobs[0]!.seq);
    }
    expect(order).toEqual([first.seq, second.seq, late.seq, low.seq]);
  });

  test('drops a token whose job has moved on', async () => {
    const job = await ledger.putJob('cancelled');
    await db().query({
      text: `INSERT INTO millrace.ready (order_key, dies_at, org_id, priority, queue, job_type, seqs)
        SELECT order_key, NULL, org_id, priority, queue, job_type, ARRAY[seq] FROM millrace.jobs WHERE id = $1`,
      values: [job.id],
    });
    expect(await ledger.tokensOf(job, 'ready')).toBe(1);
    const workerId = await ledger.registerWorker();
    expect(await claimJobs(db(), { workerId, ranges: rangesOf(job), limit: 5, claimNo: 1 })).toMatchObject({
      jobs: [],
    });
    expect(await ledger.tokensOf(job, 'ready')).toBe(0);
  });

  test('two workers never get the same job', async () => {
    const orgId = await ledger.newOrg();
    const type = `shared-${orgId}`;
    for (let count = 0; count < 10; count++) await ledger.submitOne({ orgId, type });
    const workers = await Promise.all([ledger.registerWorker(), ledger.registerWorker()]);
    const claims = await Promise.all(
      workers.map((workerId) => claimJobs(db(), { workerId, ranges: rangesOf({ jobType: type }), limit: 10, claimNo: 1 })),
    );
    const seqs = claims.flatMap(({ jobs }) => jobs.map((job) => job.seq));
    expect(new Set(seqs).size).toBe(seqs.length);
  });
});

describe('a lease that never started', () => {
  test('is refused at the start once it is another one', async () => {
    const job = await ledger.submitOne();
    const stale = await ledger.lease(job);
    await returnJobs(db(), { workerId: stale.workerId, jobs: [stale], closedClaims: [] });
    const fresh = await ledger.lease(job, stale.workerId);
    expect(fresh.leaseSeq).toBeGreaterThan(stale.leaseSeq);
    expect((await startJobs(db(), { workerId: stale.workerId, jobs: [stale] })).started.size).toBe(0);
    const refused = await returnJobs(db(), { workerId: stale.workerId, jobs: [stale], closedClaims: [] });
    expect(refused.landed.size).toBe(0);
    expect((await startJobs(db(), { workerId: fresh.workerId, jobs: [fresh] })).started.size).toBe(1);
  });

  test('goes back without an event and without costing an attempt [GM-4.02]', async () => {
    const job = await ledger.submitOne();
    const leased = await ledger.lease(job);
    const { landed } = await returnJobs(db(), { workerId: leased.workerId, jobs: [leased], closedClaims: [1, 2, 3] });
    expect(landed).toEqual(new Set([leased.leaseSeq]));
    expect(await ledger.rowOf(job)).toMatchObject({
      worker_id: null,
      attempts_started: 0,
      attempt_slot: 1,
      event_count: 1,
    });
    expect(await ledger.tokensOf(job, 'ready')).toBe(1);
  });

  test('of a silent worker goes back only after its lease, and not after a heartbeat [GM-4.07]', async () => {
    const moveClock = await stopClock(ledger);
    const leased = await ledger.lease(await ledger.submitOne({ policy: { leaseMs: 60_000 } }));
    const expire = async () =>
      returnExpired(db(), {
        workerId: leased.workerId,
        beat: await ledger.beatOf(leased.workerId),
        jobs: [leased],
      });
    await moveClock(59_000);
    expect((await expire()).landed.size).toBe(0);
    await moveClock(2_000);
    await ledger.beat(leased.workerId);
    expect((await expire()).landed.size).toBe(0);
    await moveClock(61_000);
    expect((await expire()).landed.size).toBe(1);
    expect(await ledger.tokensOf(leased, 'ready')).toBe(1);
    expect(await ledger.eventsOf(leased)).toHaveLength(1);
  });
});

describe('a parent that spawns', () => {
  test('is fenced by its lease, and returns its children and ancestors [GM-6.04] [GM-6.07]', async () => {
    const top = await ledger.start(await ledger.submitOne());
    const placement = { parentSeq: top.seq, joinsParent: true, depth: 1 };
    const middle = await ledger.start(await ledger.submitOne({ orgId: top.orgId, placement }));
    await ledger.submitOne({ orgId: top.orgId, placement: { parentSeq: middle.seq } });
    await ledger.submitOne({ orgId: top.orgId, placement: { parentSeq: middle.seq } });
    const guarded = await inTransaction(ledger.db.api, (client) => lockParent(client, middle));
    expect(guarded).toEqual({
      landed: true,
      depth: 1,
      priority: 2,
      children: 2,
      ancestorIds: expect.arrayContaining([middle.id, top.id]),
      joinedSeqs: [middle.seq, top.seq],
      origin: { requestId: middle.id, correlationId: middle.id, projectId: null, traceparent: null },
    });
    const refused = await inTransaction(ledger.db.api, (client) => lockParent(client, { ...middle, leaseSeq: top.leaseSeq }));
    expect(refused).toEqual({ landed: false });
  });

  test('does not wait for another spawn, and counts its child once that has ended', async () => {
    const parent = await ledger.start(await ledger.submitOne());
    const first = await ledger.db.api.connect();
    await first.query('BEGIN');
    await lockParent(first, parent);
    const second = () => inTransaction(ledger.db.api, (client) => lockParent(client, parent));
    await expect(second()).rejects.toThrow('Another transaction holds a lock');
    await ledger.submitOneOn(first, { orgId: parent.orgId, placement: { parentSeq: parent.seq } });
    await first.query('COMMIT');
    first.release();
    expect(await second()).toMatchObject({ landed: true, children: 1 });
  });
});
