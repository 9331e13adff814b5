import { expect, onTestFinished, test } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { PolicySweeper, type PolicySweeperOptions } from '../../src/engine/upkeep/policy-sweeper.ts';
import { PolicyCache } from '../../src/ledger/jobs/intern-policies.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { useLedger } from '../ledger/fixture.ts';

const ledger = useLedger();
const AT_ONCE: PolicySweeperOptions = { waitMs: 0, everyMs: 0, minCandidates: 1, window: 2 };

const idsLeft = async (): Promise<number[]> =>
  (await ledger.db.api.query('SELECT id FROM millrace.policies ORDER BY id')).rows.map(({ id }) => id);

/** Policies that were taken for new jobs three days ago. */
async function age(): Promise<void> {
  await ledger.db.api.query(`UPDATE millrace.policies SET last_used_at = now() - interval '3 days'`);
}

/** As a process that has just started would: it remembers no number. */
const idOf = (timeoutMs: number): Promise<number> => new PolicyCache(ledger.db.api).idOf({ ...PROFILES.gopherqueue, timeoutMs });

const sweeper = (options: PolicySweeperOptions = AT_ONCE) => new PolicySweeper(ledger.db, options);

async function untilState(swept: PolicySweeper, state: PolicySweeper['state']): Promise<void> {
  do await swept.round();
  while (swept.state !== state);
}

test('policies that no job uses are removed, in any number; policies in use stay', async () => {
  const jobs = [];
  for (const timeoutMs of [11, 12, 13, 14, 15]) jobs.push(await ledger.putJob('completed', { policy: { timeoutMs } }));
  await ledger.db.api.query(`INSERT INTO millrace.policies (hash, body) SELECT 'unused ' || n, '{}' FROM generate_series(1, 2500) n`);
  await age();
  const recent = await idOf(99);
  await untilState(sweeper(), 'idle');
  const { rows } = await ledger.db.api.query('SELECT DISTINCT policy_id FROM millrace.jobs ORDER BY 1');
  expect(await idsLeft()).toEqual([...rows.map(({ policy_id }) => policy_id), recent]);
  for (const job of jobs) expect(await ledger.stateOf(job)).toBe('completed');
  expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
});

test('a policy that is taken for a new job while the sweep goes on stays', async () => {
  const id = await idOf(21);
  await age();
  const swept = sweeper();
  await untilState(swept, 'removing');
  expect(await idOf(21)).toBe(id);
  // The clock of the database steps on by days: the policy looks as if it had not been taken for long.
  await ledger.db.api.query(`UPDATE millrace.policies SET last_used_at = last_used_at - interval '9 days'`);
  await untilState(swept, 'idle');
  expect(await idsLeft()).toContain(id);
});

test('a job whose transaction is still open keeps its policy: the sweep looks at jobs only when it has ended', async () => {
  const orgId = await ledger.newOrg();
  const entry = await ledger.toWrite(orgId, { policy: { timeoutMs: 31 } });
  const client = await ledger.db.api.connect();
  onTestFinished(() => client.release(true));
  await client.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
  await submitJobs(client, [entry]);
  await age();
  const swept = sweeper();
  await untilState(swept, 'awaiting_transactions');
  for (let round = 0; round < 5; round++) {
    await swept.round();
    expect(swept.state).toBe('awaiting_transactions');
  }
  await client.query('COMMIT');
  await untilState(swept, 'idle');
  expect(await idsLeft()).toContain(entry.policyId);
});

test('a sweep waits before it looks at jobs, and no other process begins one meanwhile', async () => {
  await ledger.db.api.query(`UPDATE millrace.policy_sweeps SET begun_at = '-infinity'`);
  await idOf(41);
  await age();
  const [first, second] = [sweeper({ minCandidates: 1 }), sweeper({ minCandidates: 1 })];
  for (const each of [first, second, first, second]) await each.round();
  expect([first.state, second.state]).toEqual(['waiting', 'idle']);
});

test('no sweep begins for a few policies', async () => {
  await age();
  const swept = sweeper({ ...AT_ONCE, minCandidates: 1_000 });
  await swept.round();
  expect(swept.state).toBe('idle');
});
