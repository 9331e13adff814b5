import { expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { countJobs } from '../../src/ledger/reads/count-jobs.ts';
import { getJob } from '../../src/ledger/reads/get-job.ts';
import { pruneJobs } from '../../src/ledger/upkeep/prune.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const completedOf = async (orgId: string): Promise<number> =>
  (await countJobs(ledger.db.api, orgId, { sinceMs: 3_600_000 })).states.completed;

test('a job whose retention is over stays until the rollup writer has counted it, so no sum loses it', async () => {
  const orgId = await ledger.newOrg();
  const job = await ledger.putJob('completed', { orgId, policy: { retentionMs: 0 } });
  // A rollup writer that is stopped, or waits for its lock.
  const holding = await ledger.db.workers.connect();
  try {
    await holding.query(`BEGIN; SELECT FROM millrace.projections WHERE name = 'rollups' FOR UPDATE`);
    await pruneJobs(ledger.db.maintenance, 1_000);
    expect(await completedOf(orgId)).toBe(1);
    await holding.query('ROLLBACK');
  } finally {
    holding.release(true);
  }
  await ledger.project();
  await pruneJobs(ledger.db.maintenance, 1_000);
  expect(await getJob(ledger.db.api, wholeOrg(orgId), job.id)).toBeNull();
  expect(await completedOf(orgId)).toBe(1);
});
