import { describe, expect, it, onTestFinished } from 'vitest';
import type { Submission } from '../../src/index.ts';
import { observeStatements } from '../../src/ledger/driver/statement.ts';
import { until } from '../until.ts';
import { useBench } from './fixture.ts';

const bench = useBench();
const UNKNOWN = '7b1f6dd2-7e7f-4a9b-8d1e-5d0c0f3c9a11';
const job = (more: object = {}) => ({ type: 'batched', payload: {}, ...more });

async function open() {
  const millrace = await bench.open({ org: await bench.ledger.newOrg() });
  return { millrace, count: async () => (await millrace.search()).totalCount };
}

describe('submitMany', () => {
  it('answers for each job in the order given [GA-1.40] [GA-1.41] [GA-1.42] [GA-1.43]', async () => {
    const { millrace } = await open();
    const batch = [job({ tags: { n: '0' } }), job({ delay: '1h', tags: { n: '1' } }), job({ tags: { n: '2' } })];
    const answer = await millrace.submitMany(batch);
    expect(answer).toMatchObject({ total: 3, accepted: 3, rejected: 0 });
    expect(answer.results.map((result) => result.status === 'ACCEPTED' && result.state)).toEqual(['scheduled', 'delayed', 'scheduled']);
    const tags = await Promise.all(answer.results.map(async ({ jobId }) => (await millrace.get(jobId as string))?.tags?.n));
    expect(tags).toEqual(['0', '1', '2']);
  });

  it('takes 1 to 1000 jobs [GA-1.36]', async () => {
    const { millrace, count } = await open();
    for (const length of [0, 1_001]) {
      await expect(millrace.submitMany(Array.from({ length }, () => job()))).rejects.toMatchObject({
        details: [{ code: 'OUT_OF_RANGE' }],
      });
    }
    expect(await count()).toBe(0);
  });

  it('is all or none: an invalid job, a missing dependency or a key of another request refuses every job [GA-1.37] [GA-1.38]', async () => {
    const { millrace, count } = await open();
    await millrace.submit(job({ idempotencyKey: 'taken', tags: { first: 'yes' } }));
    for (const broken of [job({ maxAttempts: 0 }), job({ dependsOn: [UNKNOWN] }), job({ idempotencyKey: 'taken' })]) {
      const answer = await millrace.submitMany([job(), broken, job({ idempotencyKey: 'fresh' })]);
      expect(answer).toMatchObject({ total: 3, accepted: 0, rejected: 3 });
      expect(answer.results.map(({ status }) => status)).toEqual(['REJECTED', 'REJECTED', 'REJECTED']);
      expect(await count()).toBe(1);
    }
    expect((await millrace.submit(job({ idempotencyKey: 'fresh' }))).status).toBe('ACCEPTED');
  });

  it('tells the innocent from the guilty [GA-1.38]', async () => {
    const { millrace } = await open();
    const dependents = await millrace.submitMany([job(), job({ dependsOn: [UNKNOWN] }), job({ idempotencyKey: 'k' })]);
    expect(dependents.results).toMatchObject([
      { error: { details: [{ code: 'BATCH_ABORTED' }] } },
      { error: { details: [{ field: 'dependsOn', code: 'DEPENDENCY_NOT_FOUND' }] } },
      { error: { details: [{ code: 'BATCH_ABORTED' }] } },
    ]);
    await millrace.submit(job({ idempotencyKey: 'taken', tags: { first: 'yes' } }));
    const { results } = await millrace.submitMany([job(), job({ idempotencyKey: 'taken' })]);
    expect(results).toMatchObject([{ error: { details: [{ code: 'BATCH_ABORTED' }] } }, { error: { code: 'DUPLICATE' } }]);
  });

  it('does not wait in a ring with another that names the same dependencies in another order', async () => {
    const { millrace } = await open();
    const { results } = await millrace.submitMany([job(), job()]);
    const [one, two] = results.map(({ jobId }) => job({ dependsOn: [jobId as string] }));
    const holder = await bench.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', [results[0]?.jobId]);
    let refused = 0;
    observeStatements(({ failed }) => {
      if (failed) refused++;
    });
    onTestFinished(() => observeStatements(null));
    const batches = [submitHeld([one, two])];
    await until('the first batch has met the lock', () => refused > 0);
    batches.push(submitHeld([two, one]));
    await until(
      'both batches have met the lock several times',
      () => refused,
      (seen) => seen >= 6,
    );
    await holder.query('COMMIT');
    expect((await Promise.all(batches)).map(({ accepted }) => accepted)).toEqual([2, 2]);

    /** On a busy machine the lock may be held for longer than a batch waits for it. A caller then submits again. */
    async function submitHeld(batch: (object | undefined)[]): ReturnType<typeof millrace.submitMany> {
      return millrace
        .submitMany(batch as Submission[])
        .catch((error) => (error.code === 'UNAVAILABLE' ? submitHeld(batch) : Promise.reject(error)));
    }
  });

  it('counts a repeat as accepted, also of a job in the same batch [GA-1.26]', async () => {
    const { millrace, count } = await open();
    const keyed = job({ idempotencyKey: 'k' });
    const { results, ...counts } = await millrace.submitMany([keyed, keyed, job()]);
    expect(counts).toEqual({ total: 3, accepted: 3, rejected: 0 });
    expect(results.map(({ status }) => status)).toEqual(['ACCEPTED', 'DUPLICATE', 'ACCEPTED']);
    expect(results[1]?.jobId).toBe(results[0]?.jobId);
    expect(await count()).toBe(2);
  });

  it('accepts the valid jobs and reports the others when it is not atomic [GA-1.39]', async () => {
    const { millrace, count } = await open();
    await millrace.submit(job({ idempotencyKey: 'taken', tags: { first: 'yes' } }));
    const batch = [job(), job({ maxAttempts: 0 }), job({ dependsOn: [UNKNOWN] }), job({ idempotencyKey: 'taken' }), job()];
    const answer = await millrace.submitMany(batch, { atomic: false });
    expect(answer).toMatchObject({ total: 5, accepted: 2, rejected: 3 });
    expect(answer.results.map(({ status }) => status)).toEqual(['ACCEPTED', 'REJECTED', 'REJECTED', 'REJECTED', 'ACCEPTED']);
    expect(await count()).toBe(3);
  });
});

describe('open', () => {
  it('refuses options that make no sense', async () => {
    const options = { concurrency: 0, maxPayloadBytes: 0, defaults: { maxAttempts: 0, leaseMs: 1 } };
    await expect(bench.open(options)).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });

  it('gives the system the defaults that it names', async () => {
    const millrace = await bench.open({ defaults: { maxAttempts: 9, lifetimeMs: null } });
    const { jobId } = await millrace.submit(job());
    expect(await millrace.get(jobId)).toMatchObject({ maxAttempts: 9, lifetimeDeadlineAt: null });
  });
});
