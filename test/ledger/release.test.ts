import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { DEPENDENCY_TYPES } from '../../src/core/dependencies.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { lockDependencies } from '../../src/ledger/jobs/lock-dependencies.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const BAD_ENDS = [
  { end: 'failed', reason: 'dependency_failed', id: '[GM-6.14]' },
  { end: 'dead_letter', reason: 'dependency_dead_letter', id: '[GM-6.15]' },
  { end: 'cancelled', reason: 'dependency_cancelled', id: '[GM-6.16]' },
] as const;
type End = 'completed' | (typeof BAD_ENDS)[number]['end'];

const REASONS = {
  completed: 'succeeded',
  failed: 'permanent_failure',
  dead_letter: 'attempts_exhausted',
  cancelled: 'cancelled',
} as const;

const finish = async (job: TestJob, to: End) => ledger.settle(await ledger.start(job), { to, reason: REASONS[to] });

async function drain(limit = 100): Promise<number> {
  let rounds = 0;
  while ((await releaseDependents(ledger.db.maintenance, limit)).consumed > 0) rounds++;
  return rounds;
}

describe('AFTER', () => {
  test('waits for all dependencies to complete, then is ready [GM-2.02] [GM-6.01] [GM-6.13]', async () => {
    const first = await ledger.submitOne();
    const second = await ledger.submitOne({ orgId: first.orgId });
    const job = await ledger.submitOne({ orgId: first.orgId, dependsOn: [first, second] });
    expect(await ledger.pathOf(job)).toEqual(['>pending:submitted']);
    expect([await ledger.tokensOf(job, 'waiting'), await ledger.tokensOf(job, 'ready')]).toEqual([1, 0]);
    await finish(first, 'completed');
    await drain();
    expect(await ledger.stateOf(job)).toBe('pending');
    await finish(second, 'completed');
    await drain();
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({ state: 'scheduled', event_count: 2, attempt_slot: 1 });
    expect(row.scheduled_at).toEqual(row.updated_at);
    expect(await ledger.pathOf(job)).toEqual(['>pending:submitted', 'pending>scheduled:dependencies_met']);
    expect([await ledger.tokensOf(job, 'waiting'), await ledger.tokensOf(job, 'ready')]).toEqual([0, 1]);
  });

  test('with its own start time becomes delayed [GM-2.12]', async () => {
    const first = await ledger.submitOne();
    const job = await ledger.submitOne({ orgId: first.orgId, dependsOn: [first], job: { runAfterMs: 60_000 } });
    await finish(first, 'completed');
    await drain();
    expect((await ledger.pathOf(job)).at(-1)).toBe('pending>delayed:dependencies_met');
    expect([await ledger.tokensOf(job, 'timers'), await ledger.tokensOf(job, 'ready')]).toEqual([1, 0]);
  });

  test.each(BAD_ENDS)('shares the fate of a dependency that is $end, without an attempt $id', async ({ end, reason }) => {
    const first = await ledger.submitOne();
    const second = await ledger.submitOne({ orgId: first.orgId });
    const job = await ledger.submitOne({ orgId: first.orgId, dependsOn: [first, second] });
    await finish(first, end);
    await drain();
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({ state: end, attempts_started: 0, event_count: 2 });
    expect(row.last_error).toMatchObject({ category: 'PERMANENT', code: 'DEPENDENCY_FAILED' });
    expect(row.completed_at).toEqual(row.updated_at);
    expect((await ledger.eventsOf(job)).at(-1)).toMatchObject({ n: 2, reason, detail: row.last_error });
    expect(await ledger.tokensOf(job, 'waiting')).toBe(0);
    await finish(second, 'completed');
    await drain();
    expect(await ledger.eventsOf(job)).toHaveLength(2);
  });

  test('is not revived by a manual retry of the dependency', async () => {
    const first = await ledger.submitOne();
    const job = await ledger.submitOne({ orgId: first.orgId, dependsOn: [first] });
    await finish(first, 'failed');
    await drain();
    const { orgId, id } = first;
    await retryJob(ledger.db.api, { projectId: null, orgId, id, resetAttempts: true, priority: null, delayMs: null, actor: null });
    await finish(first, 'completed');
    await drain();
    expect((await ledger.pathOf(job)).at(-1)).toBe('pending>failed:dependency_failed');
  });
});

describe('AFTER_ANY', () => {
  test.each(['completed', 'failed', 'dead_letter', 'cancelled'] as const)(
    'proceeds at the first dependency that is %s [GM-6.02]',
    async (end) => {
      const first = await ledger.submitOne();
      const second = await ledger.submitOne({ orgId: first.orgId });
      const job = await ledger.submitOne({
        orgId: first.orgId,
        dependsOn: [first, second],
        dependencyType: 'AFTER_ANY',
      });
      await finish(second, end);
      await drain();
      expect((await ledger.pathOf(job)).at(-1)).toBe('pending>scheduled:dependencies_met');
      await finish(first, 'failed');
      await drain();
      expect(await ledger.eventsOf(job)).toHaveLength(2);
    },
  );
});

describe('CHAIN', () => {
  test('runs one after the other [GM-6.03]', async () => {
    const first = await ledger.submitOne();
    const chain = { orgId: first.orgId, dependencyType: 'CHAIN' } as const;
    const second = await ledger.submitOne({ ...chain, dependsOn: [first] });
    const third = await ledger.submitOne({ ...chain, dependsOn: [second] });
    await finish(first, 'completed');
    await drain();
    expect([await ledger.stateOf(second), await ledger.stateOf(third)]).toEqual(['scheduled', 'pending']);
    await finish(second, 'completed');
    await drain();
    expect(await ledger.stateOf(third)).toBe('scheduled');
  });

  test.each(BAD_ENDS)('stops all the rest when one link is $end [GM-6.03]', async ({ end }) => {
    const first = await ledger.submitOne();
    const chain = { orgId: first.orgId, dependencyType: 'CHAIN' } as const;
    const second = await ledger.submitOne({ ...chain, dependsOn: [first] });
    const third = await ledger.submitOne({ ...chain, dependsOn: [second] });
    await finish(first, end);
    await drain();
    const step = `pending>${end}:chain_stopped`;
    expect([(await ledger.pathOf(second)).at(-1), (await ledger.pathOf(third)).at(-1)]).toEqual([step, step]);
  });
});

describe('a cascade', () => {
  test('travels down a hundred levels, one level a call', async () => {
    const jobs = [await ledger.submitOne()];
    for (let level = 1; level <= 100; level++) {
      jobs.push(await ledger.submitOne({ orgId: jobs[0]!.orgId, dependsOn: [jobs.at(-1)!] }));
    }
    expect((await ledger.rowOf(jobs.at(-1)!)).depth).toBe(100);
    await drain();
    await finish(jobs[0]!, 'failed');
    expect(await releaseDependents(ledger.db.maintenance, 100)).toMatchObject({ consumed: 1, again: true });
    expect([await ledger.stateOf(jobs[1]!), await ledger.stateOf(jobs[2]!)]).toEqual(['failed', 'pending']);
    expect(await drain()).toBe(99);
    expect((await ledger.pathOf(jobs.at(-1)!)).at(-1)).toBe('pending>failed:dependency_failed');
  });

  test.each(DEPENDENCY_TYPES)('wakes more dependents of type %s than one write takes', async (dependencyType) => {
    const first = await ledger.submitOne();
    const { orgId } = first;
    const placement = { priority: 2, depth: 1, parentSeq: null, joinsParent: false, waits: true };
    const entries = await Promise.all(Array.from({ length: 501 }, () => ledger.toWrite(orgId, { dependencyType, type: 'many' })));
    await inTransaction(ledger.db.api, async (client) => {
      await lockDependencies(client, { orgId, ids: [first.id] });
      const jobs = entries.map((entry) => ({ ...entry, placement: { ...placement, dependsOnSeqs: [first.seq] } }));
      await submitJobs(client, jobs);
    });
    await finish(first, 'completed');
    await drain();
    const { rows } = await ledger.db.api.query(
      'SELECT state, count(*)::int4 AS count FROM millrace.jobs WHERE org_id = $1 GROUP BY state ORDER BY state',
      [orgId],
    );
    expect(rows).toEqual([
      { state: 'scheduled', count: 501 },
      { state: 'completed', count: 1 },
    ]);
  });

  test('a full batch says that there may be more', async () => {
    const jobs = await Promise.all([1, 2, 3].map(() => ledger.submitOne()));
    for (const job of jobs) await ledger.submitOne({ orgId: job.orgId, dependsOn: [job] });
    await drain();
    for (const job of jobs) await finish(job, 'completed');
    const first = await releaseDependents(ledger.db.maintenance, 2);
    expect(first).toMatchObject({ consumed: 2, again: true });
    const second = await releaseDependents(ledger.db.maintenance, 2, { position: first.next });
    expect(second).toMatchObject({ consumed: 1, again: true });
    expect(await releaseDependents(ledger.db.maintenance, 2, { position: second.next })).toMatchObject({ consumed: 0, again: false });
  });
});

test('a dependency of another org is not found and not marked [GM-6.10]', async () => {
  const job = await ledger.submitOne();
  const orgId = await ledger.newOrg();
  expect(await lockDependencies(ledger.db.api, { orgId, ids: [job.id] })).toEqual([]);
  expect((await ledger.rowOf(job)).has_dependents).toBe(false);
});

test('dependencies come in order of submission with what decides about the new job [GM-6.11]', async () => {
  const done = await ledger.putJob('completed');
  const open = await ledger.submitOne({ orgId: done.orgId, job: { priority: 0 } });
  const found = await lockDependencies(ledger.db.api, { orgId: done.orgId, ids: [open.id, done.id] });
  expect(found).toEqual([
    { id: done.id, seq: done.seq, state: 'completed', depth: 0, priority: 2, dependents: 0 },
    { id: open.id, seq: open.seq, state: 'scheduled', depth: 0, priority: 0, dependents: 0 },
  ]);
});

test('a job that depends on others marks them once it is committed, except those that never end again', async () => {
  const done = await ledger.putJob('completed');
  const { orgId } = done;
  const others = [await ledger.putJob('cancelled', { orgId }), await ledger.putJob('failed', { orgId }), await ledger.submitOne({ orgId })];
  const jobs = [done, ...others];
  await ledger.submitOne({ orgId, dependsOn: jobs });
  const marks = () => Promise.all(jobs.map(async (job) => (await ledger.rowOf(job)).has_dependents));
  expect(await marks()).toEqual([false, false, false, false]);
  await drain();
  expect(await marks()).toEqual([false, false, true, true]);
});

test("through a client of the user's own a dependency has the same numbers", async () => {
  const job = await ledger.submitOne();
  const client = new pg.Client({ connectionString: ledger.db.url });
  await client.connect();
  const found = await lockDependencies(client, { orgId: job.orgId, ids: [job.id] });
  await client.end();
  expect(found).toEqual([{ id: job.id, seq: job.seq, state: 'scheduled', depth: 0, priority: 2, dependents: 0 }]);
});
