import { describe, expect, test } from 'vitest';
import { checkLanded, settleJobs } from '../../src/ledger/attempts/settle-jobs.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { settled, useLedger } from './fixture.ts';

const ledger = useLedger();
const FAILURE = JSON.stringify({ category: 'TEMPORARY', code: 'BOOM', message: 'it broke' });
const PERMANENT = { to: 'failed', reason: 'permanent_failure', failure: FAILURE } as const;

const running = async (overrides = {}) => ledger.start(await ledger.submitOne(overrides));

describe('where an attempt leaves its job', () => {
  test('success completes it with its result and one event [GM-2.06] [GM-2.15] [GM-10.08]', async () => {
    const job = await running();
    expect(await ledger.settle(job, { to: 'completed', reason: 'succeeded', result: '{"sum":7}' })).toBe(true);
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({
      state: 'completed',
      result: { sum: 7 },
      worker_id: null,
      event_count: 3,
      is_held: false,
    });
    expect(row.completed_at).toEqual(row.updated_at);
    const last = (await ledger.eventsOf(job)).at(-1);
    expect(last).toMatchObject({ n: 3, attempt: 1, lease_seq: job.leaseSeq, worker_id: job.workerId, actor: null });
    expect(await ledger.pathOf(job)).toEqual(['pending>scheduled:submitted', 'scheduled>running:started', 'running>completed:succeeded']);
  });

  test('a result of bytes is stored as bytes', async () => {
    const job = await running();
    await ledger.settle(job, { to: 'completed', reason: 'succeeded', resultBytes: Buffer.from([0, 255, 7]) });
    expect((await ledger.rowOf(job)).result_bytes).toEqual(Buffer.from([0, 255, 7]));
  });

  test('a permanent failure fails it and keeps the failure, without a result [GM-2.07] [GM-2.16]', async () => {
    const job = await running();
    await ledger.settle(job, { ...PERMANENT, result: '{"half":1}' });
    expect(await ledger.rowOf(job)).toMatchObject({ state: 'failed', result: null, last_error: JSON.parse(FAILURE) });
    expect((await ledger.eventsOf(job)).at(-1)).toMatchObject({ detail: JSON.parse(FAILURE), to_state: 'failed' });
  });

  test('a last temporary failure makes it a dead letter [GM-2.09] [GM-2.18]', async () => {
    const job = await running();
    await ledger.settle(job, { to: 'dead_letter', reason: 'attempts_exhausted', failure: FAILURE });
    expect((await ledger.pathOf(job)).at(-1)).toBe('running>dead_letter:attempts_exhausted');
  });

  test('a temporary failure lets it wait for its backoff [GM-2.08] [GM-2.17]', async () => {
    const job = await running();
    await ledger.settle(job, { to: 'retrying', reason: 'temporary_failure', delayMs: 1_500.2, failure: FAILURE });
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({ state: 'retrying', attempt_slot: 1, completed_at: null, worker_id: null });
    expect(Number(row.run_at) - Number(row.updated_at)).toBe(1_501);
    expect([await ledger.tokensOf(job, 'timers'), await ledger.tokensOf(job, 'ready')]).toEqual([1, 0]);
  });

  test('a job without dependents leaves no release, one that is awaited leaves one', async () => {
    const alone = await running();
    const awaited = await ledger.submitOne({ orgId: alone.orgId });
    await ledger.submitOne({ orgId: alone.orgId, dependsOn: [awaited] });
    await releaseDependents(ledger.db.workers, 100);
    const started = await ledger.start(awaited, alone.workerId);
    const jobs = [alone, started].map((job) => settled(job, PERMANENT));
    const params = { workerId: alone.workerId, jobs, by: 'lease', closedClaims: [] } as const;
    expect((await settleJobs(ledger.db.workers, params)).released).toBe(true);
    expect([await ledger.tokensOf(alone, 'releases'), await ledger.tokensOf(awaited, 'releases')]).toEqual([0, 1]);
  });
});

describe('a release by a worker that stops', () => {
  test('goes through retrying to scheduled at once, with two events and the attempt given back [GM-2.19]', async () => {
    const job = await running({ policy: { maxAttempts: 3 } });
    await ledger.settle(job, { to: 'retrying', reason: 'released', delayMs: 0, refundsAttempt: true });
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({
      state: 'scheduled',
      attempt_slot: 2,
      attempts_started: 1,
      max_attempts: 4,
      event_count: 4,
    });
    expect(row.scheduled_at).toEqual(row.updated_at);
    expect((await ledger.pathOf(job)).slice(-2)).toEqual(['running>retrying:released', 'retrying>scheduled:released']);
    expect((await ledger.eventsOf(job)).map((event) => event.n)).toEqual([1, 2, 3, 4]);
    expect([await ledger.tokensOf(job, 'ready'), await ledger.tokensOf(job, 'timers')]).toEqual([1, 0]);
    expect((await ledger.start(job)).started).toMatchObject({ attemptsStarted: 2, previousLeaseSeq: job.leaseSeq });
  });

  test('an attempt given back raises the limit above the one for submissions', async () => {
    const job = await running({ policy: { maxAttempts: 100 } });
    await ledger.settle(job, { to: 'retrying', reason: 'released', delayMs: 0, refundsAttempt: true });
    expect((await ledger.rowOf(job)).max_attempts).toBe(101);
  });

  test('a failure without a wait counts its backoff as elapsed [GM-2.19]', async () => {
    const job = await running();
    await ledger.settle(job, { to: 'retrying', reason: 'temporary_failure', delayMs: 0, failure: FAILURE });
    expect((await ledger.pathOf(job)).slice(-2)).toEqual(['running>retrying:temporary_failure', 'retrying>scheduled:backoff_elapsed']);
  });
});

describe('fencing', () => {
  test('a lease of the past, another worker and another org are refused and change nothing [GM-7.02]', async () => {
    const job = await running();
    await ledger.settle(job, { to: 'retrying', reason: 'released', delayMs: 0 });
    const again = await ledger.start(job);
    const before = await ledger.rowOf(job);
    const other = await ledger.registerWorker();
    expect(await ledger.settle(job, PERMANENT)).toBe(false);
    expect(await ledger.settle({ ...again, leaseSeq: job.leaseSeq }, PERMANENT)).toBe(false);
    expect(await ledger.settle({ ...again, workerId: other }, PERMANENT)).toBe(false);
    expect(await ledger.settle({ ...again, orgId: await ledger.newOrg() }, PERMANENT)).toBe(false);
    expect(await ledger.rowOf(job)).toEqual(before);
    expect(await ledger.settle(again, PERMANENT)).toBe(true);
    expect(await ledger.settle(again, PERMANENT)).toBe(false);
    expect((await ledger.pathOf(job)).filter((step) => step.startsWith('running>failed'))).toHaveLength(1);
  });

  test('an attempt its own worker ended gets the same answer again, any other does not', async () => {
    const ended = await running();
    await ledger.settle(ended, PERMANENT);
    const retrying = await running();
    await ledger.settle(retrying, { to: 'retrying', reason: 'temporary_failure', delayMs: 1_000 });
    const alive = await running();
    const succeeded = await running();
    await ledger.settle(succeeded, { to: 'retrying', reason: 'released', delayMs: 0 });
    await ledger.start(succeeded);
    const landed = await checkLanded(ledger.db.workers, [ended, retrying, alive, succeeded]);
    expect(landed).toEqual(new Set([ended.leaseSeq, retrying.leaseSeq]));
  });

  test('of many settled at once only those still held land, and closed claims go', async () => {
    const workerId = await ledger.registerWorker();
    const jobs = await Promise.all([1, 2, 3].map(async () => ledger.start(await ledger.submitOne(), workerId)));
    await ledger.settle(jobs[1]!, PERMANENT);
    const { rows } = await ledger.db.api.query('SELECT claim_no FROM millrace.claims WHERE worker_id = $1', [workerId]);
    const { landed } = await settleJobs(ledger.db.workers, {
      workerId,
      jobs: jobs.map((job) => settled(job, { to: 'completed', reason: 'succeeded' })),
      by: 'lease',
      closedClaims: rows.map((row) => row.claim_no),
    });
    expect(landed).toEqual(new Set([jobs[0]!.leaseSeq, jobs[2]!.leaseSeq]));
    const left = await ledger.db.api.query('SELECT FROM millrace.claims WHERE worker_id = $1', [workerId]);
    expect(left.rowCount).toBe(0);
  });
});
