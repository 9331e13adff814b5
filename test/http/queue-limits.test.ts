import { describe, expect, it } from 'vitest';
import { randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue({ type: 'echo', handler: (_context, payload) => payload });

describe('a limit over HTTP', () => {
  it('is shown when the job is read, with its time as a duration', async () => {
    const caller = await queue.caller();
    const limit = { key: 'mail', concurrency: 3, rate: 5, per: '1s' };
    const jobId = await caller.submit({ type: `t-${randomId()}`, payload: {}, limit });
    const { body } = await caller.get(`/jobs/${jobId}`);
    expect(body.limit).toEqual({ key: 'mail', concurrency: 3, rate: 5, per: 'PT1S' });
    const plain = await caller.get(`/jobs/${await caller.submit()}`);
    expect(plain.body.limit).toBeNull();
  });

  it('lets jobs of a batch run', async () => {
    const caller = await queue.caller();
    const jobs = [1, 2, 3].map((n) => ({ type: 'echo', payload: { n }, limit: { key: 'batch', concurrency: 1 } }));
    const { body } = await caller.post('/jobs/batch', { jobs });
    for (const { job_id } of body.results) await caller.reached(job_id, 'COMPLETED');
  });

  it('says in explain that the job waits for its limit', async () => {
    const caller = await queue.caller();
    const type = `nobody-${randomId()}`;
    const jobId = await caller.submit({ type, payload: {}, limit: { key: 'x', concurrency: 1 } });
    const { body } = await caller.get(`/jobs/${jobId}/explain`);
    expect(body.obstacles.map(({ code }: { code: string }) => code)).toEqual(['NO_WORKER', 'LIMIT']);
    expect(body.facts.limit).toEqual({
      key: 'x',
      concurrency: 1,
      rate: null,
      per: null,
      running: 0,
      running_ids: [],
      started: 0,
      ahead: 0,
    });
  });

  it.each<[unknown, string, string]>([
    [[], 'limit', 'must be an object'],
    [{ key: 'x', rate: 1 }, 'limit.per', 'is required'],
    [{ key: '\u0000', concurrency: 1 }, 'limit.key', 'NUL'],
    [{ key: 'x'.repeat(10_000), concurrency: 1 }, 'limit.key', '256'],
    [{ key: 'x', concurrency: 1, ['__proto__']: 1 }, 'limit.__proto__', 'is not an accepted name'],
    [{ key: 'x', concurrency: 1, burst: 2 }, 'limit.burst', 'is not known'],
    [{ key: 'x', concurrency: '1' }, 'limit.concurrency', 'integer'],
    [{ key: 'x', rate: 1, pre: '1s' }, 'limit.pre', 'did you mean per'],
  ])('%j is refused', async (limit, field, words) => {
    const caller = await queue.caller();
    const { status, body } = await caller.post('/jobs', { type: 'echo', payload: {}, limit });
    expect(status).toBe(400);
    expect(body.details).toContainEqual(expect.objectContaining({ field, message: expect.stringContaining(words) }));
  });

  it('is not shared by two orgs, and a repeat must have the same limit', async () => {
    const [one, other] = [await queue.caller(), await queue.caller()];
    const type = `t-${randomId()}`;
    const submission = { type, payload: {}, idempotency_key: 'k', limit: { key: 'same', concurrency: 1 } };
    const first = await one.post('/jobs', submission);
    expect((await one.post('/jobs', submission)).body).toMatchObject({ status: 'DUPLICATE', job_id: first.body.job_id });
    expect((await one.post('/jobs', { ...submission, limit: { key: 'another', concurrency: 1 } })).status).toBe(409);
    const theirs = await other.submit({ ...submission, limit: { key: 'same', concurrency: 7 } });
    expect((await other.get(`/jobs/${theirs}`)).body.limit.concurrency).toBe(7);
    expect((await one.get(`/jobs/${first.body.job_id}`)).body.limit.concurrency).toBe(1);
  });
});
