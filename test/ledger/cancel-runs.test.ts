import { describe, expect, onTestFinished, test } from 'vitest';
import { claimAndStart } from '../../src/ledger/attempts/claim-and-start.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { depthByOrg } from '../../src/ledger/queues/queue-depth.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

async function runOf(count: number) {
  const { orgId, type, ids } = await ledger.submitLine(count);
  return {
    ids,
    cancel: (some: readonly string[]) =>
      cancelJobs(ledger.db.api, { projectId: null, orgId, ids: some, reason: null, actor: null, force: false }),
    depth: () => depthByOrg(ledger.db.api, { queue: 'q:default', jobType: type, atMost: 1_000 }).then(({ all }) => all),
    rows: async () => (await ledger.db.api.query('SELECT FROM millrace.ready WHERE org_id = $1', [orgId])).rows.length,
    async take(limit: number): Promise<string[]> {
      const ranges = [{ queue: 'q:default', jobType: type, priority: 2, floor: 0 }];
      const workerId = await ledger.registerWorker();
      const { jobs: started } = await claimAndStart(ledger.db.workers, { workerId, ranges, limit, claimNo: workerId });
      return started.map(({ id }) => id);
    },
  };
}

describe('a job that is cancelled while it waits among others', () => {
  test('no longer counts in the depth of its queue; the others are given out in their order', async () => {
    const { ids, cancel, depth, take } = await runOf(300);
    const gone = ids.filter((_, index) => index % 3 === 0 || (index > 40 && index < 90));
    const left = ids.filter((id) => !gone.includes(id));
    await cancel(gone.slice(0, 1));
    expect(await depth()).toBe(299);
    await cancel(gone);
    expect(await depth()).toBe(left.length);
    expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
    expect(await take(300)).toEqual(left);
    expect(await depth()).toBe(0);
  });

  test('is counted neither before nor after some of them were given out', async () => {
    const { ids, cancel, depth, take } = await runOf(100);
    const begun = await take(10);
    await cancel(ids.slice(10, 20));
    expect(await depth()).toBe(80);
    expect([...begun, ...(await take(100))]).toEqual([...ids.slice(0, 10), ...ids.slice(20)]);
  });

  test('takes the last token of its run with it', async () => {
    const { ids, cancel, depth, rows } = await runOf(20);
    await cancel(ids);
    expect(await depth()).toBe(0);
    expect(await rows()).toBe(0);
  });

  test('does not wait for a claim that holds them: the claim drops it', async () => {
    const { ids, cancel, depth, take } = await runOf(5);
    const claim = await ledger.db.workers.connect();
    onTestFinished(() => claim.release(true));
    await claim.query('BEGIN');
    await claim.query('SELECT FROM millrace.ready FOR UPDATE');
    expect(await cancel(ids.slice(1, 3))).toMatchObject([{ kind: 'cancelled' }, { kind: 'cancelled' }]);
    await claim.query('ROLLBACK');
    expect(await take(5)).toEqual([ids[0], ...ids.slice(3)]);
    expect(await depth()).toBe(0);
  });
});
