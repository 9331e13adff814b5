/** Two spawns at the same time that would close a ring of waiting jobs together. */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { type ParentLease, placeChild } from '../../src/engine/submit/placement.ts';
import { types } from '../../src/ledger/driver/database.ts';
import { lockParent } from '../../src/ledger/jobs/guard-parent.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { type LeasedTestJob, type TestJob, useLedger } from '../ledger/fixture.ts';

const ledger = useLedger();

/** An open transaction without the time limits of our sessions: one of two waits until the test has seen it wait. */
async function begin(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: ledger.db.url, types });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  return client;
}

/** Spawns a joined child that depends on a job, in an open transaction. */
async function spawn(client: pg.Client, parent: LeasedTestJob, dependency: TestJob): Promise<void> {
  const lease: ParentLease = { ...parent, join: 'all' };
  const entry = await ledger.toWrite(parent.orgId, { job: { dependsOn: [dependency.id] } });
  const guard = await lockParent(client, lease);
  if (!guard.landed) throw new Error('the parent is no longer held');
  await placeChild(client, entry, { ...guard, parent: lease, inheritsPriority: true });
  await submitJobs(client, [entry]);
}

test('the second of them sees the first and is refused', async () => {
  const first = await ledger.start(await ledger.submitOne());
  const second = await ledger.start(await ledger.submitOne({ orgId: first.orgId }));
  const [one, other] = [await begin(), await begin()];
  await spawn(one, first, second);
  const spawning = expect(spawn(other, second, first)).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
    details: [{ code: 'DEPENDENCY_CYCLE' }],
  });
  await ledger.untilBlocked();
  await one.query('COMMIT');
  await spawning;
});

test('a child may wait for a job that nothing leads back from, whatever others spawn', async () => {
  const parent = await ledger.start(await ledger.submitOne());
  const dependency = await ledger.submitOne({ orgId: parent.orgId });
  await ledger.submitOne({ orgId: parent.orgId, dependsOn: [parent] });
  const client = await begin();
  await spawn(client, parent, dependency);
  await client.query('COMMIT');
});
