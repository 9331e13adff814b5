import { describe, expect, it } from 'vitest';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();
const valid = { type: 'mail', payload: {} };
const broken = { type: 'mail', payload: [] };

const countOf = async (caller: Awaited<ReturnType<typeof queue.caller>>) => (await caller.post('/jobs/search', {})).body.total_count;

describe('a batch', () => {
  it('is accepted whole and answered in the order given [GA-1.35] [GA-1.40..43]', async () => {
    const caller = await queue.caller();
    const jobs = ['a', 'b', 'c'].map((type) => ({ type, payload: {} }));
    const { status, body } = await caller.post('/jobs/batch', { jobs });
    expect(status).toBe(200);
    expect(body).toMatchObject({ total: 3, accepted: 3, rejected: 0 });
    const found = await Promise.all(body.results.map(({ job_id }: { job_id: string }) => caller.get(`/jobs/${job_id}`)));
    expect(found.map((each) => each.body.type)).toEqual(['a', 'b', 'c']);
    expect(body.results[0]).toMatchObject({ status: 'ACCEPTED', state: 'SCHEDULED' });
  });

  it('has 1 to 1000 jobs [GA-1.36] [GA-6.15]', async () => {
    const caller = await queue.caller();
    const many = (count: number) => ({ jobs: Array.from({ length: count }, () => valid) });
    for (const count of [0, 1_001]) {
      const { status, body } = await caller.post('/jobs/batch', many(count));
      expect(status).toBe(400);
      expect(body.details[0]).toMatchObject({ field: 'jobs', code: 'OUT_OF_RANGE' });
    }
    expect(await countOf(caller)).toBe(0);
    expect((await caller.post('/jobs/batch', many(1_000))).body.accepted).toBe(1_000);
    expect((await caller.post('/jobs/batch', many(1))).body.accepted).toBe(1);
  });

  it('is all or nothing by default [GA-1.37] [GA-1.38]', async () => {
    const caller = await queue.caller();
    for (const batch of [{ jobs: [valid, broken] }, { jobs: [valid, broken], atomic: true }]) {
      const { status, body } = await caller.post('/jobs/batch', batch);
      expect(status).toBe(200);
      expect(body).toMatchObject({ total: 2, accepted: 0, rejected: 2 });
      expect(body.results[0]).toMatchObject({ status: 'REJECTED', job_id: null, state: null });
      expect(body.results[0].error.details[0].code).toBe('BATCH_ABORTED');
      expect(body.results[1].error.details[0]).toMatchObject({ field: 'payload', code: 'INVALID_TYPE' });
    }
    expect(await countOf(caller)).toBe(0);
  });

  it('without atomic creates the valid jobs and reports the others as REJECTED [GA-1.37] [GA-1.39]', async () => {
    const caller = await queue.caller();
    const misspelt = { type: 'mail', payload: {}, maxAttempts: 2 };
    const { body } = await caller.post('/jobs/batch', { jobs: [broken, valid, misspelt], atomic: false });
    expect(body).toMatchObject({ total: 3, accepted: 1, rejected: 2 });
    expect(body.results.map(({ status }: { status: string }) => status)).toEqual(['REJECTED', 'ACCEPTED', 'REJECTED']);
    expect(body.results[2].error.details).toEqual([
      { field: 'maxAttempts', code: 'UNKNOWN_MEMBER', message: expect.stringContaining('max_attempts') },
    ]);
    expect(body.results[1]).not.toHaveProperty('error');
    expect(await countOf(caller)).toBe(1);
  });

  it('rejects the row that the key may not submit, and that row alone [GA-1.38] [GA-1.39]', async () => {
    const caller = await queue.caller();
    const plain = await caller.with('jobs:write', 'jobs:read');
    const jobs = [valid, { ...valid, priority: 'CRITICAL' }, { ...valid, org_id: '7b1f6dd2-7e7f-4a9b-8d1e-5d0c0f3c9a11' }];
    const loose = await plain.post('/jobs/batch', { jobs, atomic: false });
    expect([loose.status, loose.body.accepted, loose.body.rejected]).toEqual([200, 1, 2]);
    expect(loose.body.results).toMatchObject([
      { status: 'ACCEPTED' },
      { status: 'REJECTED', error: { code: 'FORBIDDEN', details: [{ field: 'priority', code: 'MISSING_SCOPE' }] } },
      { status: 'REJECTED', error: { code: 'FORBIDDEN', details: [{ field: 'org_id', code: 'WRONG_ORG' }] } },
    ]);
    const { body } = await plain.post('/jobs/batch', { jobs, atomic: true });
    expect([body.accepted, body.results[0].error.details[0].code]).toEqual([0, 'BATCH_ABORTED']);
    expect(await countOf(caller)).toBe(1);
  });

  it('counts a repeat as accepted and another use of its key as rejected [GA-1.22] [GA-1.26] [GA-1.27]', async () => {
    const caller = await queue.caller();
    const keyed = { ...valid, idempotency_key: 'k' };
    const first = await caller.submit(keyed);
    const { body } = await caller.post('/jobs/batch', {
      jobs: [keyed, { ...keyed, payload: { other: 1 } }],
      atomic: false,
    });
    expect(body).toMatchObject({ accepted: 1, rejected: 1 });
    expect(body.results[0]).toMatchObject({ status: 'DUPLICATE', job_id: first, existing_job_id: first });
    expect(body.results[1]).toMatchObject({ status: 'REJECTED', job_id: null, error: { code: 'DUPLICATE' } });
    expect(body.results[1]).not.toHaveProperty('existing_job_id');
  });

  it.each([
    ['no list', { jobs: valid }, 'jobs', 'INVALID_TYPE'],
    ['nothing', {}, 'jobs', 'INVALID_TYPE'],
    ['atomic as text', { jobs: [valid], atomic: 'no' }, 'atomic', 'INVALID_TYPE'],
    ['an unknown member', { jobs: [valid], atomc: true }, 'atomc', 'UNKNOWN_MEMBER'],
    ['a list alone', [valid], 'body', 'INVALID_TYPE'],
  ])('is refused whole with %s [GA-1.35] [GA-6.15]', async (_what, batch, field, code) => {
    const caller = await queue.caller();
    const { status, body } = await caller.post('/jobs/batch', batch);
    expect(status).toBe(400);
    expect(body.details).toEqual([{ field, code, message: expect.any(String) }]);
  });
});
