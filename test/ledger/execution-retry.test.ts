import { describe, expect, test } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { type RetryParams, retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const policy = PROFILES.forgerun;

const retry = ({ orgId, id }: TestJob, params: Partial<RetryParams> = {}) =>
  retryJob(ledger.db.api, {
    projectId: null,
    ...{ orgId, id, resetAttempts: false, priority: null, delayMs: null, actor: 'api_key:k' },
    ...params,
  });

/** How long the job is to wait, by its own row. */
async function waitMs(job: TestJob): Promise<number> {
  const { run_at, updated_at } = await ledger.rowOf(job);
  return Number(run_at) - Number(updated_at);
}

const failedAfter = async (attempts: number): Promise<TestJob> => {
  const job = await ledger.putJob('failed', { policy });
  await ledger.db.api.query('UPDATE millrace.jobs SET attempts_started = $2, attempt_slot = $2 WHERE id = $1', [job.id, attempts]);
  return job;
};

describe('a manual retry within the limit', () => {
  test('waits for the backoff that its number has, and counts at once [FR-11.04] [FR-11.05] [FR-11.06]', async () => {
    for (const [attempts, delayMs] of [
      [1, 1_000],
      [2, 2_000],
      [3, 4_000],
    ] as const) {
      const job = await failedAfter(attempts);
      const answer = await retry(job, { random: 0.5 });
      expect(answer).toMatchObject({ kind: 'queued', state: 'delayed', attemptSlot: attempts + 1 });
      expect(await ledger.rowOf(job)).toMatchObject({ attempts_started: attempts, attempt_slot: attempts + 1 });
      expect(await waitMs(job)).toBe(delayMs);
    }
  });

  test('spreads the backoff by a tenth either way [FR-11.06]', async () => {
    const early = await failedAfter(1);
    await retry(early, { random: 0 });
    expect(await waitMs(early)).toBe(900);
    const late = await failedAfter(1);
    await retry(late, { random: 0.999_999 });
    expect(await waitMs(late)).toBe(1_100);
  });

  test('takes base and maximum of the backoff from the policy of the job [FR-11.07] [FR-11.08]', async () => {
    const backoff = { ...policy.backoff, initialDelayMs: 5_000, maxDelayMs: 8_000, jitter: false };
    for (const [attempts, delayMs] of [
      [1, 5_000],
      [2, 8_000],
    ] as const) {
      const job = await ledger.putJob('failed', { policy: { ...policy, backoff } });
      await ledger.db.api.query('UPDATE millrace.jobs SET attempts_started = $2 WHERE id = $1', [job.id, attempts]);
      await retry(job);
      expect(await waitMs(job)).toBe(delayMs);
    }
  });

  test('is refused after the last attempt, however it is asked for, and changes nothing [FR-11.02] [FR-11.09]', async () => {
    const job = await failedAfter(4);
    const before = await ledger.rowOf(job);
    expect(await retry(job)).toEqual({ kind: 'exhausted', state: 'failed' });
    expect(await retry(job, { resetAttempts: true })).toEqual({ kind: 'exhausted', state: 'failed' });
    expect(await retry(job, { delayMs: 0 })).toEqual({ kind: 'exhausted', state: 'failed' });
    expect(await ledger.rowOf(job)).toEqual(before);
  });

  test('starts no new round when one is asked for', async () => {
    const job = await failedAfter(2);
    await retry(job, { resetAttempts: true });
    expect(await ledger.rowOf(job)).toMatchObject({ attempts_started: 2, attempt_slot: 3, round: 0, max_attempts: 4 });
  });

  test.each(['delayed', 'scheduled', 'running', 'retrying', 'completed', 'cancelled'] as const)(
    'leaves a job that is %s as it is [FR-11.01] [FR-14.47]',
    async (state) => {
      const job = await ledger.putJob(state, { policy });
      const before = [await ledger.rowOf(job), await ledger.eventsOf(job)];
      expect(await retry(job)).toEqual({ kind: 'not_retriable', state });
      expect([await ledger.rowOf(job), await ledger.eventsOf(job)]).toEqual(before);
    },
  );

  test('takes the place of one that was to come by itself, at its time, where that is wanted [FR-11.04]', async () => {
    const job = await ledger.putJob('retrying', { policy: { ...policy, autoRetry: true } });
    const { run_at } = await ledger.rowOf(job);
    const answers = await Promise.all(Array.from({ length: 10 }, () => retry(job, { takesOver: true })));
    expect(answers.filter(({ kind }) => kind === 'queued')).toMatchObject([{ attemptSlot: 2 }]);
    expect((await ledger.rowOf(job)).run_at).toEqual(run_at);
    expect((await ledger.pathOf(job)).slice(-2)).toEqual(['retrying>failed:retry_dropped', 'failed>delayed:manual_retry']);
    await ledger.moveClock(120_000);
    await stageJobs(ledger.db.maintenance, { limit: 1_000, floor: null });
    await ledger.moveClock(-120_000);
    expect(await ledger.rowOf(job)).toMatchObject({ state: 'scheduled', attempt_slot: 2 });
    expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
  });

  test('asked for ten times at once is granted once [FR-14.51]', async () => {
    const job = await ledger.putJob('failed', { policy });
    const answers = await Promise.all(Array.from({ length: 10 }, () => retry(job)));
    expect(answers.filter(({ kind }) => kind === 'queued')).toHaveLength(1);
    expect(await ledger.rowOf(job)).toMatchObject({ attempt_slot: 2 });
    expect((await ledger.pathOf(job)).filter((step) => step.endsWith(':manual_retry'))).toHaveLength(1);
  });
});
