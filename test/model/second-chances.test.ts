/** Short histories in which a job comes back, each too rare to leave to chance. */
import { expect, test } from 'vitest';
import { findOrphans } from '../../src/ledger/attempts/find-orphans.ts';
import { ownedJobs } from '../../src/ledger/attempts/owned-jobs.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { useLedger } from '../ledger/fixture.ts';

const ledger = useLedger();
const release = () => releaseDependents(ledger.db.maintenance, 100);

test.each(['failed', 'dead_letter'] as const)(
  'a %s job that is retried by hand before the releaser looks wakes its new dependent with its second end',
  async (state) => {
    const dependency = await ledger.putJob(state);
    const { orgId, id } = dependency;
    const dependent = await ledger.submitOne({ orgId, dependsOn: [dependency] });
    const wish = { resetAttempts: true, priority: null, delayMs: null, actor: null };
    await retryJob(ledger.db.api, { projectId: null, orgId, id, ...wish });
    await release();
    expect(await ledger.stateOf(dependent)).toBe('pending');
    await ledger.settle(await ledger.start(dependency), { to: 'completed', reason: 'succeeded' });
    await release();
    expect(await ledger.stateOf(dependent)).toBe('scheduled');
  },
);

test('a worker that lost a job and got it again holds it once, by its newer claim', async () => {
  const job = await ledger.submitOne();
  const first = await ledger.start(job);
  await ledger.settle(first, { to: 'retrying', reason: 'temporary_failure', delayMs: 0 });
  const second = await ledger.start(job, first.workerId);
  const { rows } = await ledger.db.api.query('SELECT claim_no FROM millrace.claims WHERE worker_id = $1 ORDER BY 1', [first.workerId]);
  expect(rows).toHaveLength(2);
  const owned = await ownedJobs(ledger.db.workers, first.workerId);
  expect(owned).toMatchObject([{ id: job.id, leaseSeq: second.leaseSeq, claimNo: rows[1].claim_no }]);
  await ledger.moveClock(3_600_000);
  expect(await findOrphans(ledger.db.maintenance, 10)).toMatchObject([{ id: job.id, leaseSeq: second.leaseSeq }]);
});
