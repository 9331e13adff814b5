import { describe, expect, test } from 'vitest';
import { type RetryParams, retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import { type TestJob, useLedger } from './fixture.ts';
import { useLockPatience } from './patient.ts';

const ledger = useLedger();
useLockPatience(ledger);
const HOUR = 3_600_000;

const retry = (job: TestJob, params: Partial<RetryParams> = {}) =>
  retryJob(ledger.db.api, {
    projectId: null,
    orgId: job.orgId,
    id: job.id,
    resetAttempts: false,
    priority: null,
    delayMs: null,
    actor: 'user:ada',
    ...params,
  });

describe('a manual retry', () => {
  test.each(['failed', 'dead_letter'] as const)(
    'queues a %s job again, with its author in the history [GA-4.36] [GA-4.42] [GA-4.43] [GA-4.44]',
    async (state) => {
      const job = await ledger.putJob(state);
      const before = await ledger.rowOf(job);
      const answer = await retry(job);
      const row = await ledger.rowOf(job);
      expect(answer).toEqual({
        ...{ kind: 'queued', state: 'scheduled', scheduledFor: expect.any(Date), attemptSlot: 2 },
        updatedAt: row.updated_at,
        moved: expect.objectContaining({ jobId: job.id, from: state, to: 'scheduled', reason: 'manual_retry' }),
      });
      expect(row).toMatchObject({
        state: 'scheduled',
        completed_at: null,
        last_error: before.last_error,
        order_key: before.order_key,
        attempt_slot: 2,
        round: 0,
      });
      expect(row.scheduled_at).toEqual(row.updated_at);
      expect((await ledger.eventsOf(job)).at(-1)).toMatchObject({
        from_state: state,
        to_state: 'scheduled',
        reason: 'manual_retry',
        actor: 'user:ada',
        n: row.event_count,
      });
      expect((await ledger.start(job)).started.attemptsStarted).toBe(2);
    },
  );

  test('without a reset raises the limit by the one attempt it needs, no more', async () => {
    const exhausted = await ledger.putJob('dead_letter', { policy: { maxAttempts: 1 } });
    await retry(exhausted);
    expect(await ledger.rowOf(exhausted)).toMatchObject({ attempts_started: 1, max_attempts: 2 });
    const fresh = await ledger.putJob('failed', { policy: { maxAttempts: 3 } });
    await retry(fresh);
    expect(await ledger.rowOf(fresh)).toMatchObject({ attempts_started: 1, max_attempts: 3 });
  });

  test('with a reset starts a new round at nought [GA-4.38]', async () => {
    const job = await ledger.putJob('dead_letter');
    await retry(job, { resetAttempts: true });
    expect(await ledger.rowOf(job)).toMatchObject({ attempts_started: 0, attempt_slot: 1, round: 1, started_at: null });
    const again = await ledger.start(job);
    expect(again.started.attemptsStarted).toBe(1);
    expect((await ledger.eventsOf(job)).at(-1)).toMatchObject({ attempt: 1, round: 1 });
  });

  test('may wait and may take another priority [GA-4.39] [GA-4.40]', async () => {
    const job = await ledger.putJob('failed');
    const answer = await retry(job, { delayMs: HOUR, priority: 0 });
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({ state: 'delayed', priority: 0, requested_priority: 2 });
    expect(answer).toMatchObject({ kind: 'queued', state: 'delayed', scheduledFor: expect.any(Date) });
    expect(Number(row.run_at) - Number(row.updated_at)).toBe(HOUR);
    await ledger.moveClock(HOUR + 1);
    await stageJobs(ledger.db.maintenance, { limit: 10, floor: null });
    expect((await ledger.start(job)).started.priority).toBe(0);
    await ledger.moveClock(-HOUR - 1);
  });

  test('gives the job a new lifetime', async () => {
    const job = await ledger.putJob('dead_letter', { policy: { lifetimeMs: HOUR } });
    const before = await ledger.rowOf(job);
    await ledger.moveClock(30 * HOUR);
    await retry(job);
    const row = await ledger.rowOf(job);
    expect(Number(row.lifetime_deadline) - Number(row.updated_at)).toBe(HOUR);
    expect(Number(row.lifetime_deadline)).toBeGreaterThan(Number(before.lifetime_deadline));
    await ledger.moveClock(-30 * HOUR);
  });

  test('of a job without a lifetime leaves it without one', async () => {
    const job = await ledger.putJob('failed', { policy: { lifetimeMs: null } });
    await retry(job);
    expect((await ledger.rowOf(job)).lifetime_deadline).toBeNull();
  });
});

describe('what cannot be retried', () => {
  test.each(['pending', 'delayed', 'scheduled', 'running', 'retrying', 'completed', 'cancelled'] as const)(
    'a job that is %s stays as it is [GA-4.42]',
    async (state) => {
      const job = await ledger.putJob(state);
      const before = await ledger.rowOf(job);
      expect(await retry(job)).toEqual({ kind: 'not_retriable', state });
      expect(await ledger.rowOf(job)).toEqual(before);
    },
  );

  test('a job that has had one hundred attempts, unless they are reset [GA-4.38]', async () => {
    const job = await ledger.putJob('dead_letter', { policy: { maxAttempts: 100 } });
    await ledger.db.api.query('UPDATE millrace.jobs SET attempts_started = 100 WHERE id = $1', [job.id]);
    expect(await retry(job)).toEqual({ kind: 'not_retriable', state: 'dead_letter' });
    expect(await retry(job, { resetAttempts: true })).toMatchObject({ kind: 'queued' });
  });

  test('a job of another org or of none is not found [GA-4.42]', async () => {
    const job = await ledger.putJob('failed');
    expect(await retry({ ...job, orgId: await ledger.newOrg() })).toEqual({ kind: 'not_found' });
    expect(await ledger.stateOf(job)).toBe('failed');
  });
});

test('of two retries at once one queues and the other finds the job queued', async () => {
  const job = await ledger.putJob('failed');
  const holder = await ledger.db.maintenance.connect();
  await holder.query('BEGIN');
  await holder.query('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', [job.id]);
  const both = Promise.all([retry(job), retry(job)]);
  await ledger.untilBlocked();
  await holder.query('COMMIT');
  holder.release();
  expect((await both).map((answer) => answer.kind).sort()).toEqual(['not_retriable', 'queued']);
  expect((await ledger.pathOf(job)).filter((step) => step.endsWith('manual_retry'))).toHaveLength(1);
  expect(await ledger.tokensOf(job, 'ready')).toBe(1);
});
