import { describe, expect, test } from 'vitest';
import { LIFETIME_FAILURE } from '../../src/core/failure.ts';
import { startJobs } from '../../src/ledger/attempts/start-jobs.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { expireJobs } from '../../src/ledger/upkeep/expire-jobs.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const LIFETIME_MS = 3_600_000;
const mortal = { policy: { lifetimeMs: LIFETIME_MS } };
const expire = (limit = 100) => expireJobs(ledger.db.maintenance, limit);

describe('a job past its total lifetime', () => {
  test.each(['pending', 'delayed', 'scheduled', 'retrying'] as const)(
    'becomes a dead letter while %s, and not a minute before [GM-4.04] [GM-4.08] [GM-4.13]',
    async (state) => {
      const job = await ledger.putJob(state, mortal);
      const before = await ledger.rowOf(job);
      await ledger.moveClock(LIFETIME_MS - 60_000);
      await expire();
      expect(await ledger.stateOf(job)).toBe(state);
      await ledger.moveClock(60_001);
      const ended = { jobId: job.id, from: state, to: 'dead_letter', reason: 'lifetime_exceeded', failure: LIFETIME_FAILURE };
      expect(await expire()).toMatchObject({ expired: 1, released: false, again: false, jobs: [ended] });
      const row = await ledger.rowOf(job);
      expect(row).toMatchObject({
        state: 'dead_letter',
        last_error: LIFETIME_FAILURE,
        event_count: before.event_count + 1,
      });
      expect((await ledger.eventsOf(job)).at(-1)).toMatchObject({
        from_state: state,
        to_state: 'dead_letter',
        reason: 'lifetime_exceeded',
        detail: LIFETIME_FAILURE,
        n: row.event_count,
      });
      const tables = ['ready', 'timers', 'waiting'] as const;
      for (const table of tables) expect(await ledger.tokensOf(job, table)).toBe(0);
      expect(await expire()).toEqual({ expired: 0, released: false, again: false, jobs: [] });
    },
  );

  test('ends from retrying when its time runs out during the backoff [GM-2.20]', async () => {
    const job = await ledger.putJob('retrying', mortal);
    await ledger.moveClock(LIFETIME_MS + 1);
    await expire();
    expect((await ledger.pathOf(job)).at(-1)).toBe('retrying>dead_letter:lifetime_exceeded');
  });

  test('is left to its worker while it runs', async () => {
    const job = await ledger.putJob('running', mortal);
    await ledger.moveClock(LIFETIME_MS + 1);
    expect(await expire()).toMatchObject({ expired: 0 });
    expect(await ledger.stateOf(job)).toBe('running');
  });

  test('takes its lease with it when a stale token names it', async () => {
    const leased = await ledger.lease(await ledger.submitOne(mortal));
    await ledger.db.api.query(
      `INSERT INTO millrace.ready (order_key, dies_at, org_id, priority, queue, job_type, seqs)
       SELECT order_key, lifetime_deadline, org_id, priority, queue, job_type, ARRAY[seq] FROM millrace.jobs WHERE id = $1`,
      [leased.id],
    );
    await ledger.moveClock(LIFETIME_MS + 1);
    expect(await expire()).toMatchObject({ expired: 1 });
    expect((await startJobs(ledger.db.workers, { workerId: leased.workerId, jobs: [leased] })).started.size).toBe(0);
  });

  test('notifies the jobs that wait for it', async () => {
    const job = await ledger.submitOne(mortal);
    await ledger.submitOne({ orgId: job.orgId, dependsOn: [job] });
    await releaseDependents(ledger.db.maintenance, 100);
    await ledger.moveClock(LIFETIME_MS + 1);
    expect(await expire()).toMatchObject({ expired: 1, released: true });
    expect(await ledger.tokensOf(job, 'releases')).toBe(1);
  });
});

test('a job without a lifetime never expires', async () => {
  const job = await ledger.submitOne({ policy: { lifetimeMs: null } });
  await ledger.moveClock(10_000 * LIFETIME_MS);
  await expire();
  expect(await ledger.stateOf(job)).toBe('scheduled');
});

test('a token from before a manual retry is dropped and the job lives on', async () => {
  const job = await ledger.putJob('pending', mortal);
  await ledger.moveClock(LIFETIME_MS + 1);
  await expire();
  const { orgId, id } = job;
  await retryJob(ledger.db.api, { projectId: null, orgId, id, resetAttempts: true, priority: null, delayMs: null, actor: null });
  await ledger.db.api.query(`INSERT INTO millrace.waiting (dies_at, seq, org_id) VALUES (millrace.clock() - interval '1 s', $1, $2)`, [
    job.seq,
    orgId,
  ]);
  expect(await expire()).toMatchObject({ expired: 0 });
  expect([await ledger.stateOf(job), await ledger.tokensOf(job, 'waiting')]).toEqual(['scheduled', 0]);
  expect(await ledger.tokensOf(job, 'ready')).toBe(1);
});

test('a full sweep says that there is more', async () => {
  const jobs = [await ledger.submitOne(mortal), await ledger.submitOne(mortal), await ledger.submitOne(mortal)];
  await ledger.moveClock(LIFETIME_MS + 1);
  let expired = 0;
  for (let again = true; again; ) {
    const answer = await expire(2);
    expired += answer.expired;
    again = answer.again;
  }
  expect(expired).toBeGreaterThanOrEqual(3);
  for (const job of jobs) expect(await ledger.stateOf(job)).toBe('dead_letter');
});
