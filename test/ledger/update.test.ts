import { describe, expect, onTestFinished, test } from 'vitest';
import { claimAndStart } from '../../src/ledger/attempts/claim-and-start.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { type JobChange, updateJob } from '../../src/ledger/jobs/update-job.ts';
import { depthByOrg } from '../../src/ledger/queues/queue-depth.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const KEYED = { idempotencyKey: 'k', fingerprint: 'f' };

const violations = () => checkInvariants(ledger.db.maintenance);
const update = (job: { orgId: string; id: string }, change: JobChange) => updateJob(ledger.db.api, { projectId: null, ...job, change });

describe('a job whose type is changed', () => {
  const submit = async (orgId: string, type: string) => {
    const entry = await ledger.toWrite(orgId, { type, job: KEYED, policy: { retentionMs: 0 } });
    const [written] = await submitJobs(ledger.db.api, [entry]);
    return { orgId, id: entry.id, written };
  };

  test('keeps its key under the type it was sent with, where a repeat of the request finds it [GM-1.12]', async () => {
    const orgId = await ledger.newOrg();
    const job = await submit(orgId, 'old');
    for (const type of ['new', 'newer']) await update(job, { type });
    expect((await submit(orgId, 'old')).written).toEqual({ kind: 'duplicate', existingId: job.id, sameRequest: true });
    expect((await submit(orgId, 'newer')).written).toMatchObject({ kind: 'accepted' });
    expect(await violations()).toEqual([]);
  });

  test('takes its key along when it is pruned', async () => {
    const orgId = await ledger.newOrg();
    const type = `old-${orgId}`;
    const job = await submit(orgId, type);
    const jobType = `new-${orgId}`;
    await update(job, { type: jobType });
    const { seq } = (await ledger.rowOf(job)) as unknown as { seq: number };
    await ledger.settle(await ledger.start({ projectId: null, ...job, seq, jobType }), { to: 'completed', reason: 'succeeded' });
    expect((await ledger.prune(100)).jobs).toBe(1);
    expect((await submit(orgId, type)).written).toMatchObject({ kind: 'accepted' });
  });
});

async function lineOf(count: number) {
  const { orgId, type, ids } = await ledger.submitLine(count);
  const depth = (jobType = type) => depthByOrg(ledger.db.api, { queue: 'q:default', jobType, atMost: 1_000 }).then(({ all }) => all);
  return {
    ...{ type, ids, depth },
    change: (index: number, change: JobChange) => update({ orgId, id: ids[index] as string }, change),
    async take(limit: number): Promise<number[]> {
      const ranges = [0, 1, 2, 3, 4].map((priority) => ({ queue: 'q:default', jobType: type, priority, floor: 0 }));
      const workerId = await ledger.registerWorker();
      const { jobs: started } = await claimAndStart(ledger.db.workers, { workerId, ranges, limit, claimNo: workerId });
      return started.map(({ id }) => ids.indexOf(id));
    },
  };
}

describe('a ready job that is given another priority or type', () => {
  test.each([1, 5])('waits once, however often it is moved, in a line of %i [GM-10.11]', async (count) => {
    const { change, depth, take } = await lineOf(count);
    const last = count - 1;
    for (const priority of [1, 1, 3, 2, 0]) await change(last, { priority });
    expect(await depth()).toBe(count);
    expect(await violations()).toEqual([]);
    expect(await take(1)).toEqual([last]);
    expect(await depth()).toBe(last);
    expect(await take(10)).toEqual(Array.from({ length: last }, (_, index) => index));
    expect(await depth()).toBe(0);
  });

  test('no longer waits among those of its old type', async () => {
    const { change, depth, type } = await lineOf(3);
    await change(1, { type: `${type}-other` });
    expect([await depth(), await depth(`${type}-other`)]).toEqual([2, 1]);
  });

  test('does not wait for a claim that holds its token: the claim drops it', async () => {
    const { change, depth, take } = await lineOf(3);
    const claim = await ledger.db.workers.connect();
    onTestFinished(() => claim.release(true));
    await claim.query('BEGIN');
    await claim.query('SELECT FROM millrace.ready FOR UPDATE');
    expect(await change(1, { priority: 0 })).toEqual({ kind: 'updated' });
    await claim.query('ROLLBACK');
    expect(await take(10)).toEqual([1, 0, 2]);
    expect(await depth()).toBe(0);
  });
});
