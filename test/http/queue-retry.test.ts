import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { PermanentError } from '../../src/core/failure.ts';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();

describe('a manual retry', () => {
  it.each(['failed', 'dead_letter'] as const)('of a %s job queues it again [GA-4.36] [GA-4.37] [GA-4.41..44]', async (state) => {
    const caller = await queue.caller();
    const { id } = await queue.ledger.putJob(state, { orgId: caller.orgId });
    const { status, body } = await caller.post(`/jobs/${id}/retry`);
    expect(status).toBe(200);
    expect(body).toEqual({ job_id: id, status: 'QUEUED', new_state: 'SCHEDULED', scheduled_for: expect.any(String) });
    const job = (await caller.get(`/jobs/${id}`, { include_history: 'true' })).body;
    expect(job).toMatchObject({ state: 'SCHEDULED', completed_at: null });
    expect(job.history.at(-1)).toMatchObject({ to_state: 'SCHEDULED', reason: 'manual_retry' });
  });

  it('runs the job once more, though its attempts were used up [GA-4.36] [GA-4.38]', async () => {
    const caller = await queue.caller();
    let failures = 1;
    const jobId = await caller.act(
      () => {
        if (failures-- > 0) throw new PermanentError('once');
        return 'well';
      },
      { max_attempts: 1 },
    );
    await caller.reached(jobId, 'FAILED');
    await caller.post(`/jobs/${jobId}/retry`, { reset_attempts: false });
    expect(await caller.reached(jobId, 'COMPLETED')).toMatchObject({ attempt: 2, result: { output: 'well' } });
  });

  it('counts attempts anew when asked [GA-4.38]', async () => {
    const caller = await queue.caller();
    const { id } = await queue.ledger.putJob('failed', { orgId: caller.orgId });
    await caller.post(`/jobs/${id}/retry`, { reset_attempts: true });
    expect((await queue.ledger.rowOf({ orgId: caller.orgId, id })).attempts_started).toBe(0);
    const kept = await queue.ledger.putJob('failed', { orgId: caller.orgId });
    await caller.post(`/jobs/${kept.id}/retry`, {});
    expect((await queue.ledger.rowOf(kept)).attempts_started).toBe(1);
  });

  it('may change the priority, CRITICAL only with permission [GA-4.39]', async () => {
    const caller = await queue.caller();
    const { id } = await queue.ledger.putJob('failed', { orgId: caller.orgId });
    const plain = await caller.with('jobs:write', 'jobs:read');
    expect((await plain.post(`/jobs/${id}/retry`, { priority: 'CRITICAL' })).status).toBe(403);
    await plain.post(`/jobs/${id}/retry`, { priority: 'BULK' });
    expect((await plain.get(`/jobs/${id}`)).body.priority).toBe('BULK');
  });

  it('may wait, in either form of a duration [GA-4.40] [GA-4.43] [GA-4.44]', async () => {
    const caller = await queue.caller();
    for (const delay of ['PT1H', 3_600]) {
      const { id } = await queue.ledger.putJob('dead_letter', { orgId: caller.orgId });
      const before = Date.now();
      const { body } = await caller.post(`/jobs/${id}/retry`, { delay });
      expect(body).toMatchObject({ status: 'QUEUED', new_state: 'DELAYED' });
      expect(Math.abs(Date.parse(body.scheduled_for) - before - 3_600_000)).toBeLessThan(10_000);
    }
  });

  it('is refused with a delay that outlasts the lifetime it begins anew [GA-4.40]', async () => {
    const caller = await queue.caller();
    const { id } = await queue.ledger.putJob('failed', { orgId: caller.orgId, policy: { lifetimeMs: 7_200_000 } });
    const { status, body } = await caller.post(`/jobs/${id}/retry`, { delay: 'PT2H' });
    expect([status, body.details[0].field, body.details[0].code]).toEqual([400, 'delay', 'BEYOND_LIFETIME']);
    expect(await caller.state(id)).toBe('FAILED');
    expect((await caller.post(`/jobs/${id}/retry`, { delay: 'PT1H' })).body.status).toBe('QUEUED');
  });

  it.each([
    ['completed', 'COMPLETED'],
    ['cancelled', 'CANCELLED'],
    ['scheduled', 'SCHEDULED'],
    ['running', 'RUNNING'],
    ['retrying', 'RETRYING'],
  ] as const)('of a %s job is NOT_RETRIABLE and leaves it %s [GA-4.42] [GA-4.43]', async (state, word) => {
    const caller = await queue.caller();
    const { id } = await queue.ledger.putJob(state, { orgId: caller.orgId });
    const { status, body } = await caller.post(`/jobs/${id}/retry`, {});
    expect(status).toBe(200);
    expect(body).toEqual({ job_id: id, status: 'NOT_RETRIABLE', new_state: word, scheduled_for: null });
    expect(await caller.state(id)).toBe(word);
  });

  it('of no job is 404 with a body that is a result and an error in one [GA-4.42] [GA-6.14]', async () => {
    const caller = await queue.caller();
    const foreign = await queue.ledger.putJob('failed');
    for (const id of [randomUUID(), foreign.id, 'nonsense']) {
      const { status, body } = await caller.post(`/jobs/${id}/retry`, {});
      expect(status).toBe(404);
      expect(body).toMatchObject({ job_id: id, status: 'NOT_FOUND', new_state: null, code: 'NOT_FOUND', details: [] });
    }
    expect(await queue.ledger.stateOf(foreign)).toBe('failed');
  });

  it.each([
    ['an unknown priority', { priority: 'SOON' }, 'priority'],
    ['a delay that is none', { delay: 'later' }, 'delay'],
    ['a negative delay', { delay: -1 }, 'delay'],
    ['an unknown member', { reset: true }, 'reset'],
  ])('is refused with %s [GA-4.39] [GA-4.40]', async (_what, request, field) => {
    const caller = await queue.caller();
    const { id } = await queue.ledger.putJob('failed', { orgId: caller.orgId });
    const { status, body } = await caller.post(`/jobs/${id}/retry`, request);
    expect([status, body.details[0].field]).toEqual([400, field]);
    expect(await caller.state(id)).toBe('FAILED');
  });
});
