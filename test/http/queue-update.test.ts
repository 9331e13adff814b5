import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue({ type: 'known', handler: () => null });

describe('a change', () => {
  it('of open members is kept and answered, and moves no time of the job', async () => {
    const caller = await queue.caller();
    const jobId = await caller.submit({ tags: { a: '1' }, correlation_id: 'c', delay: 'PT1H' });
    const before = (await caller.get(`/jobs/${jobId}`)).body;
    const change = { priority: 'BULK', tags: { b: '2' }, correlation_id: null, callback_url: 'https://example.com/x' };
    const { status, body } = await caller.patch(`/jobs/${jobId}`, change);
    expect(status).toBe(200);
    // Without one of its own the job is correlated by the request that brought it.
    expect(body).toEqual({ ...before, ...change, correlation_id: before.request_id });
    expect((await caller.get(`/jobs/${jobId}`)).body).toEqual(body);
    expect((await caller.patch(`/jobs/${jobId}`, { tags: null })).body.tags).toEqual({});
    expect((await caller.patch(`/jobs/${jobId}`, {})).body.priority).toBe('BULK');
  });

  it('of the type is only to one that is known, before the first attempt', async () => {
    const caller = await queue.caller();
    const jobId = await caller.submit({ delay: 'PT1H' });
    const unknown = await caller.patch(`/jobs/${jobId}`, { type: 'nobody-handles-this' });
    expect([unknown.status, unknown.body.details[0].code]).toEqual([400, 'UNKNOWN_TYPE']);
    expect((await caller.patch(`/jobs/${jobId}`, { type: 'known' })).body.type).toBe('known');
  });

  it('of the type leaves a repeat of the request a repeat [GM-1.12]', async () => {
    const caller = await queue.caller();
    const submission = { type: 'unserved', payload: {}, idempotency_key: 'k', delay: 'PT1H' };
    const jobId = await caller.submit(submission);
    expect((await caller.patch(`/jobs/${jobId}`, { type: 'known' })).status).toBe(200);
    expect((await caller.post('/jobs', submission)).body).toMatchObject({
      status: 'DUPLICATE',
      existing_job_id: jobId,
    });
  });

  it('to CRITICAL needs permission [GA-6.19]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.submit();
    const plain = await caller.with('jobs:write');
    expect((await plain.patch(`/jobs/${jobId}`, { priority: 'CRITICAL' })).status).toBe(403);
    expect((await caller.patch(`/jobs/${jobId}`, { priority: 'CRITICAL' })).body.priority).toBe('CRITICAL');
  });

  it('that comes too late is a conflict', async () => {
    const caller = await queue.caller();
    const done = await queue.ledger.putJob('completed', { orgId: caller.orgId });
    const running = await queue.ledger.putJob('running', { orgId: caller.orgId });
    const late = await caller.patch(`/jobs/${done.id}`, { tags: { a: 'b' } });
    expect([late.status, late.body.code]).toEqual([409, 'CONFLICT']);
    expect((await caller.patch(`/jobs/${running.id}`, { priority: 'LOW' })).status).toBe(409);
    expect((await caller.patch(`/jobs/${running.id}`, { tags: { a: 'b' } })).status).toBe(200);
  });

  it('of the priority or the type is a conflict after the first attempt, also in RETRYING [C109]', async () => {
    const caller = await queue.caller();
    const retrying = await queue.ledger.putJob('retrying', { orgId: caller.orgId });
    for (const change of [{ priority: 'LOW' }, { type: 'known' }]) {
      const { status, body } = await caller.patch(`/jobs/${retrying.id}`, change);
      expect([status, body.code]).toEqual([409, 'CONFLICT']);
      expect(body.message).toContain(`${Object.keys(change)} can no longer be changed`);
    }
    expect((await caller.patch(`/jobs/${retrying.id}`, { tags: { a: 'b' } })).status).toBe(200);
    expect((await caller.get(`/jobs/${retrying.id}`)).body).toMatchObject({ state: 'RETRYING', priority: 'NORMAL' });
  });

  it.each([
    ['payload', { payload: {} }, 'UNKNOWN_MEMBER'],
    ['state', { state: 'COMPLETED' }, 'UNKNOWN_MEMBER'],
    ['correlationId', { correlationId: 'c' }, 'UNKNOWN_MEMBER'],
    ['callback_url', { callback_url: 'nowhere' }, 'INVALID_URL'],
    ['priority', { priority: 'soon' }, 'INVALID_VALUE'],
  ])('of %s is refused', async (field, change, code) => {
    const caller = await queue.caller();
    const jobId = await caller.submit();
    const { status, body } = await caller.patch(`/jobs/${jobId}`, change);
    expect(status).toBe(400);
    expect(body.details[0]).toMatchObject({ field, code });
  });

  it('of no job, or of another org’s, is 404 [GA-6.14]', async () => {
    const caller = await queue.caller();
    const foreign = await (await queue.caller()).submit();
    for (const id of [randomUUID(), foreign, 'nonsense'])
      expect((await caller.patch(`/jobs/${id}`, { tags: { a: 'b' } })).status).toBe(404);
  });
});

describe('an explanation', () => {
  it('says what keeps a job, in a sentence, as obstacles and as facts', async () => {
    const caller = await queue.caller();
    const first = await caller.submit({ type: 'unserved' });
    const second = await caller.submit({ depends_on: [first] });
    const lonely = (await caller.get(`/jobs/${first}/explain`)).body;
    expect(lonely).toMatchObject({
      job_id: first,
      state: 'SCHEDULED',
      facts: { serving_workers: 0, queue: 'q:default' },
    });
    expect(lonely.obstacles[0]).toMatchObject({ code: 'NO_WORKER', message: lonely.summary });
    const waiting = (await caller.get(`/jobs/${second}/explain`)).body;
    expect(waiting.facts.unmet_dependencies).toEqual([{ job_id: first, state: 'SCHEDULED' }]);
    expect(waiting.obstacles[0].code).toBe('DEPENDENCY');
  });

  it('of a running job names who has it', async () => {
    const caller = await queue.caller();
    const running = await queue.ledger.putJob('running', { orgId: caller.orgId });
    await caller.post(`/jobs/${running.id}/cancel`, {});
    const { body } = await caller.get(`/jobs/${running.id}/explain`);
    expect(body.facts.holder).toMatchObject({ name: expect.stringMatching(/^worker-/), host: expect.stringMatching(/^host-/) });
    expect(body.facts.cancel_request).toMatchObject({ force: false });
    expect(body.obstacles.map(({ code }: { code: string }) => code)).toContain('CANCEL_REQUESTED');
  });

  it('of no job is 404 [GA-6.14]', async () => {
    const caller = await queue.caller();
    for (const id of [randomUUID(), 'nonsense', await (await queue.caller()).submit()])
      expect((await caller.get(`/jobs/${id}/explain`)).status).toBe(404);
  });
});
