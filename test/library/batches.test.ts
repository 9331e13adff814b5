import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { BatchFailure, BatchProgress, Submission } from '../../src/index.ts';
import { PermanentError } from '../../src/index.ts';
import { pruneBatches } from '../../src/ledger/upkeep/prune-batches.ts';
import { until } from '../until.ts';
import { Gate, useBench } from './fixture.ts';

const bench = useBench();

const jobs = (count: number, type = 'work'): Submission[] => Array.from({ length: count }, (_, n) => ({ type, payload: { n } }));

const sumOf = (progress: BatchProgress): number => {
  const { waiting, running, completed, failed, cancelled, removed } = progress;
  return waiting + running + completed + failed + cancelled + removed;
};

const storedJobs = async (): Promise<number> =>
  (await bench.ledger.db.maintenance.query('SELECT count(*)::int4 AS jobs FROM millrace.jobs')).rows[0].jobs;

describe('a batch', () => {
  it('takes any number of jobs, and counts them exactly while it drains: no count of ended jobs ever falls', async () => {
    const millrace = await bench.work({ work: () => null }, { concurrency: 50 });
    const orgStart = (await millrace.stats()).states.completed;
    const seen: BatchProgress[] = [];
    const stats: number[] = [];
    let isOver = false;
    const polling = until('the batch has ended', async () => {
      stats.push((await millrace.stats()).states.completed - orgStart);
      return isOver;
    });
    const batch = await millrace.batches.submit(jobs(12_500));
    const outcome = await batch.wait({ onProgress: (progress) => seen.push(progress), timeout: '120s' });
    isOver = true;
    await polling;
    expect(outcome).toMatchObject({ total: 12_500, completed: 12_500, waiting: 0, running: 0, failed: 0, isDone: true, failedIds: [] });
    for (const progress of seen) expect(sumOf(progress)).toBe(12_500);
    const counts = seen.map(({ completed }) => completed);
    expect(counts).toEqual(counts.toSorted((a, b) => a - b));
    // The counts of the org agree: they never fall, and end with the truth.
    expect(stats).toEqual(stats.toSorted((a, b) => a - b));
    expect((await millrace.stats()).states).toMatchObject({ completed: 12_500 + orgStart, scheduled: 0, running: 0 });
  });

  it('takes jobs from an async iterable, one piece at a time', async () => {
    const millrace = await bench.open();
    let taken = 0;
    let mostUnstored = 0;
    const before = await storedJobs();
    async function* source() {
      for (const job of jobs(3_500)) {
        taken++;
        // A job that is taken belongs to the piece that is being filled: the pieces before it are stored.
        if (taken % 500 === 0) mostUnstored = Math.max(mostUnstored, taken - (await storedJobs()) + before);
        yield job;
      }
    }
    const batch = await millrace.batches.submit(source());
    expect(mostUnstored).toBeLessThanOrEqual(1_000);
    expect(await batch.progress()).toMatchObject({ total: 3_500, waiting: 3_500, isSubmitted: true, isDone: false });
    const { rows } = await bench.ledger.db.maintenance.query('SELECT jobs FROM millrace.batch_parts WHERE batch_id = $1 ORDER BY part', [
      batch.id,
    ]);
    expect(rows.map(({ jobs }) => jobs)).toEqual([1_000, 1_000, 1_000, 500]);
  });

  it('cuts a piece at 4 MB, so that large payloads need little memory', async () => {
    const millrace = await bench.open();
    const large = Array.from({ length: 12 }, () => ({ type: 'large', payload: { text: 'x'.repeat(1_000_000) } }));
    const batch = await millrace.batches.submit(large);
    const { rows } = await bench.ledger.db.maintenance.query('SELECT jobs FROM millrace.batch_parts WHERE batch_id = $1 ORDER BY part', [
      batch.id,
    ]);
    expect(rows.map(({ jobs }) => jobs)).toEqual([5, 5, 2]);
  });

  it('reports the jobs that did not complete', async () => {
    const millrace = await bench.work({
      mixed: (_, payload) => {
        if ((payload as { n: number }).n % 10 === 3) throw new PermanentError('a three');
      },
    });
    const batch = await millrace.batches.submit(jobs(40, 'mixed'));
    const outcome = await batch.wait({ timeout: '60s' });
    expect(outcome).toMatchObject({ total: 40, completed: 36, failed: 4, states: { failed: 4 } });
    const failures: BatchFailure[] = [];
    for await (const failure of batch.failures()) failures.push(failure);
    expect(failures).toEqual(
      Array.from({ length: 4 }, () => ({
        jobId: expect.any(String),
        type: 'mixed',
        state: 'failed',
        error: expect.objectContaining({ message: 'a three' }),
      })),
    );
    expect(outcome.failedIds).toEqual(failures.map(({ jobId }) => jobId));
    const retried = outcome.failedIds[0] as string;
    await millrace.retry(retried);
    expect(await batch.wait({ timeout: '60s' })).toMatchObject({ failed: 4 });
  });

  it('is opened by its id in another process, and only by its org', async () => {
    const gate = new Gate();
    const worker = await bench.work({ gated: () => gate.pass() });
    const batch = await worker.batches.submit(jobs(3, 'gated'));
    await gate.reached(3);
    const other = await bench.open();
    const again = await other.batches.open(batch.id.toUpperCase());
    expect(await again.progress()).toMatchObject({ total: 3, running: 3, isDone: false });
    const stranger = await bench.open({ org: await bench.ledger.newOrg() });
    for (const id of [batch.id, 'x', '__proto__', `${batch.id}\0`]) {
      await expect(stranger.batches.open(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    }
    await expect(stranger.batches.submit(jobs(1), { id: batch.id })).rejects.toMatchObject({ code: 'CONFLICT' });
    const stop = new AbortController();
    const waiting = again.wait({ signal: stop.signal });
    stop.abort();
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    await expect(again.wait({ timeout: '1ms' })).rejects.toMatchObject({ code: 'TIMED_OUT' });
    gate.open();
    expect(await again.wait({ timeout: '60s' })).toMatchObject({ completed: 3 });
  });

  it('is submitted again after a crash with the same id: only the missing jobs are', async () => {
    const millrace = await bench.open();
    const id = randomUUID();
    const before = await storedJobs();
    function* crashing() {
      yield* jobs(2_500).slice(0, 2_200);
      throw new Error('the process died');
    }
    await expect(millrace.batches.submit(crashing(), { id })).rejects.toThrow('the process died');
    const half = await (await millrace.batches.open(id)).progress();
    expect(half).toMatchObject({ total: 2_000, isSubmitted: false, isDone: false });
    const others = jobs(2_500).map((job) => ({ ...job, type: 'other' }));
    await expect(millrace.batches.submit(others, { id })).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('Jobs 0 to 999'),
    });
    const batches = await Promise.all([1, 2].map(() => millrace.batches.submit(jobs(2_500), { id })));
    expect(await batches[0]?.progress()).toMatchObject({ total: 2_500, waiting: 2_500, isSubmitted: true });
    expect((await storedJobs()) - before).toBe(2_500);
    await expect(millrace.batches.submit(jobs(3_500), { id })).rejects.toMatchObject({ code: 'CONFLICT' });
    expect((await storedJobs()) - before).toBe(2_500);
  });

  it('goes on when its connections are cut between and during pieces', async () => {
    const millrace = await bench.open();
    const before = await storedJobs();
    const cuts: Promise<void>[] = [];
    async function* cutting() {
      for (const [n, job] of jobs(4_000).entries()) {
        if (n % 1_000 === 500) await bench.cut();
        // The piece is full, and is written while this cut happens.
        if (n % 1_000 === 999) cuts.push(bench.cut());
        yield job;
      }
    }
    const batch = await millrace.batches.submit(cutting());
    await Promise.all(cuts);
    await until('the counts can be read', async () => (await batch.progress().catch(() => null))?.total === 4_000);
    await until('all jobs are stored, each once', () => storedJobs().catch(() => null), before + 4_000);
  });

  it('refuses a wrong job with its place, and keeps the pieces before it', async () => {
    const millrace = await bench.open();
    const wrong = [...jobs(1_200), { type: '', payload: {} }, ...jobs(10)];
    const refused = await millrace.batches.submit(wrong).catch((error) => error);
    expect(refused).toMatchObject({ code: 'INVALID_REQUEST', details: [expect.objectContaining({ field: 'jobs[1200].type' })] });
    expect(refused.message).toMatch(
      /^Job 1200 of the batch \S+ is refused: .* type must not be empty\. The 1000 jobs of the pieces before it are submitted\.$/,
    );
    const id = /batch (\S+) is refused/.exec(refused.message)?.[1] as string;
    expect(await (await millrace.batches.open(id)).progress()).toMatchObject({ total: 1_000, isSubmitted: false });
    await expect(millrace.batches.submit([])).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    for (const given of [null, undefined, 7, {}, 'text', new Map([[1, 2]])]) {
      await expect(millrace.batches.submit(given as never)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    }
    await expect(millrace.batches.submit(jobs(1), { id: '../x' })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(millrace.batches.submit(jobs(1), { idd: 'x' } as never)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });

  it('contains the job of a repeated idempotency key, once in each piece', async () => {
    const millrace = await bench.work({ keyed: () => null });
    const keyed = { type: 'keyed', payload: {}, idempotencyKey: 'the-one' };
    const first = await millrace.submit(keyed);
    const batch = await millrace.batches.submit([keyed, keyed, ...jobs(2, 'keyed')]);
    expect(await batch.wait({ timeout: '60s' })).toMatchObject({ total: 3, completed: 3 });
    expect((await millrace.get(first.jobId))?.state).toBe('completed');
  });

  it('counts jobs that were removed after their retention as removed, and is removed with the last of them', async () => {
    const [worker, millrace] = [await bench.work({ brief: () => null }), await bench.open()];
    const batch = await millrace.batches.submit(jobs(5, 'brief'));
    await until('all have completed', async () => (await millrace.stats({ breakdownBy: ['TYPE'] })).byType?.brief?.completed === 5);
    // Its pruner would remove the batch, too.
    await worker.close();
    const db = bench.ledger.db.maintenance;
    await db.query(
      `DELETE FROM millrace.jobs WHERE (org_id, seq) IN (SELECT j.org_id, j.seq FROM millrace.jobs j
       JOIN millrace.batch_parts p ON p.seqs @> j.seq WHERE p.batch_id = $1 ORDER BY j.seq LIMIT 2)`,
      [batch.id],
    );
    expect(await batch.progress()).toMatchObject({ total: 5, completed: 3, removed: 2, isDone: true });
    await db.query(`UPDATE millrace.batches SET created_at = created_at - interval '2 days' WHERE id = $1`, [batch.id]);
    expect(await pruneBatches(db, 100)).toBe(0);
    await db.query('DELETE FROM millrace.jobs j USING millrace.batch_parts p WHERE p.batch_id = $1 AND p.seqs @> j.seq', [batch.id]);
    expect(await pruneBatches(db, 100)).toBe(1);
    await expect(batch.progress()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});
