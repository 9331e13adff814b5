import { describe, expect, it } from 'vitest';
import { useBench } from './fixture.ts';

const bench = useBench();
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const DAY_MS = 86_400_000;

describe('the id of a job', () => {
  it('is a version 4 UUID that the system assigns at submission [GM-1.01] [GM-1.02] [GM-1.03]', async () => {
    const millrace = await bench.open();
    const { results } = await millrace.submitMany(Array.from({ length: 1_000 }, () => ({ type: 'id', payload: {} })));
    const ids = results.map(({ jobId }) => jobId as string);
    expect(new Set(ids).size).toBe(1_000);
    expect(ids.filter((id) => !UUID_V4.test(id))).toEqual([]);
    await expect(millrace.submit({ type: 'id', payload: {}, id: ids[0] } as never)).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
    });
  });

  it('stays the same through attempts, manual retries and a restart [GM-1.04] [GM-1.06]', async () => {
    const seen = new Set<string>();
    const first = await bench.work({
      stable: (context) => {
        seen.add(context.jobId);
        throw new Error('again');
      },
    });
    const { jobId } = await first.submit({
      type: 'stable',
      payload: {},
      maxAttempts: 2,
      backoff: { initialDelay: '1ms' },
    });
    await first.waitFor(jobId);
    await first.retry(jobId);
    expect((await first.waitFor(jobId)).attemptsStarted).toBe(3);
    await first.close();
    const second = await bench.open();
    expect(await second.get(jobId)).toMatchObject({ id: jobId, state: 'dead_letter' });
    expect([...seen]).toEqual([jobId]);
  });

  it('is kept as long as retention says, and never given again [GM-1.05] [GM-1.07]', async () => {
    const options = { org: await bench.ledger.newOrg(), defaults: { retentionMs: 2 * DAY_MS } };
    const worker = await bench.work({ kept: () => 1 }, options);
    const { jobId } = await worker.submit({ type: 'kept', payload: {} });
    await worker.waitFor(jobId);
    await worker.close();
    await bench.ledger.moveClock(1.9 * DAY_MS);
    expect(await pruned(options)).toMatchObject({ id: jobId });
    await bench.ledger.moveClock(0.2 * DAY_MS);
    expect(await pruned(options)).toBeNull();
    const later = await bench.open(options);
    const { results } = await later.submitMany(Array.from({ length: 1_000 }, () => ({ type: 'kept', payload: {} })));
    expect(results.map((result) => result.jobId)).not.toContain(jobId);

    /** What is left of the job after a look at retention. */
    async function pruned(openOptions: typeof options) {
      const millrace = await bench.open(openOptions);
      await bench.ledger.prune();
      return millrace.get(jobId);
    }
  });
});

describe('an idempotency key', () => {
  it('is optional, and may be any string of up to 256 characters [GM-1.08] [GM-1.09] [GM-1.10] [GM-1.11]', async () => {
    const millrace = await bench.open();
    const key = `💥 any/thing\n${'k'.repeat(243)}`;
    const { jobId } = await millrace.submit({ type: 'keyed', payload: {}, idempotencyKey: key });
    expect((await millrace.get(jobId))?.idempotencyKey).toBe(key);
    const bare = await millrace.submit({ type: 'keyed', payload: {} });
    expect((await millrace.get(bare.jobId))?.idempotencyKey).toBeNull();
    await expect(millrace.submit({ type: 'keyed', payload: {}, idempotencyKey: 'k'.repeat(257) })).rejects.toMatchObject({
      details: [{ field: 'idempotencyKey' }],
    });
  });

  it('gives one job to fifty callers at once, in two processes [GM-1.14]', async () => {
    const [one, two] = [await bench.open(), await bench.open()];
    const submission = { type: 'once', payload: { n: 1 }, idempotencyKey: 'same' };
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? one : two).submit(submission)));
    expect(new Set(answers.map(({ jobId }) => jobId)).size).toBe(1);
    expect(answers.filter(({ status }) => status === 'ACCEPTED')).toHaveLength(1);
    const repeat = answers.find(({ status }) => status === 'DUPLICATE');
    expect(repeat).toMatchObject({ existingJobId: answers[0]?.jobId, state: 'scheduled' });
    expect((await one.search({ types: ['once'] })).totalCount).toBe(1);
  });

  it('refuses a different request under the same key, and names the job that holds it', async () => {
    const millrace = await bench.open();
    const { jobId } = await millrace.submit({ type: 'fixed', payload: { n: 1 }, idempotencyKey: 'k' });
    await expect(millrace.submit({ type: 'fixed', payload: { n: 2 }, idempotencyKey: 'k' })).rejects.toMatchObject({
      code: 'DUPLICATE',
      details: [{ field: 'idempotencyKey', message: expect.stringContaining(jobId) }],
    });
  });

  it('is its own for each type and each org [GM-1.12]', async () => {
    const here = await bench.open();
    const there = await bench.open({ org: await bench.ledger.newOrg() });
    const ids = await Promise.all([
      here.submit({ type: 'a', payload: {}, idempotencyKey: 'scoped' }),
      here.submit({ type: 'b', payload: {}, idempotencyKey: 'scoped' }),
      there.submit({ type: 'a', payload: {}, idempotencyKey: 'scoped' }),
    ]);
    expect(ids.map(({ status }) => status)).toEqual(['ACCEPTED', 'ACCEPTED', 'ACCEPTED']);
    expect(new Set(ids.map(({ jobId }) => jobId)).size).toBe(3);
  });

  it('still answers for a job that has ended [GM-1.14]', async () => {
    const millrace = await bench.work({ ended: () => 'x' });
    const submission = { type: 'ended', payload: {}, idempotencyKey: 'k' };
    const { jobId } = await millrace.submit(submission);
    await millrace.waitFor(jobId);
    expect(await millrace.submit(submission)).toMatchObject({ status: 'DUPLICATE', jobId, state: 'completed' });
  });

  it('holds for a day by default, then makes a new job [GM-1.15] [GM-1.16] [GM-1.17]', async () => {
    const millrace = await bench.open();
    const submission = { type: 'daily', payload: {}, idempotencyKey: 'k' };
    const first = await millrace.submit(submission);
    await bench.ledger.moveClock(DAY_MS - 60_000);
    expect(await millrace.submit(submission)).toMatchObject({ status: 'DUPLICATE', jobId: first.jobId });
    await bench.ledger.moveClock(61_000);
    const second = await millrace.submit(submission);
    expect(second.status).toBe('ACCEPTED');
    expect(second.jobId).not.toBe(first.jobId);
  });

  it('holds as long as it is set to [GM-1.13] [GM-1.15]', async () => {
    const millrace = await bench.open({ defaults: { keyWindowMs: 3_600_000 } });
    const submission = { type: 'hourly', payload: {}, idempotencyKey: 'k' };
    const first = await millrace.submit(submission);
    await bench.ledger.moveClock(3_540_000);
    expect((await millrace.submit(submission)).jobId).toBe(first.jobId);
    await bench.ledger.moveClock(61_000);
    expect((await millrace.submit(submission)).status).toBe('ACCEPTED');
  });
});
