import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { JobState } from '../../src/core/states.ts';
import { Gate, untilAborted } from '../library/fixture.ts';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();

/** A job in this state, and what a request to cancel it is answered. */
async function cancelOne(state: JobState, request?: object) {
  const caller = await queue.caller();
  const { id } = await queue.ledger.putJob(state, { orgId: caller.orgId });
  const { status, body } = await caller.post(`/jobs/${id}/cancel`, request);
  expect(status).toBe(200);
  return { caller, id, body };
}

/** A job whose handler runs until it is interrupted. */
async function running() {
  const caller = await queue.caller();
  const gate = new Gate();
  const jobId = await caller.act(async (context) => {
    gate.pass();
    await untilAborted(context.signal);
  });
  await gate.reached();
  return { caller, jobId };
}

describe('a cancellation', () => {
  it.each([
    ['pending', 'PENDING', 'GA-3.08'],
    ['scheduled', 'SCHEDULED', 'GA-3.09'],
    ['delayed', 'DELAYED', 'GA-3.10'],
    ['retrying', 'RETRYING', 'GA-3.16'],
  ] as const)('of a %s job, %s, takes effect at once [%s] [GA-3.01] [GA-3.04..07]', async (state, word, _id) => {
    const { caller, id, body } = await cancelOne(state, { reason: 'not needed' });
    expect(body).toEqual({
      job_id: id,
      status: 'CANCELLED',
      previous_state: word,
      message: expect.stringContaining('cancelled'),
    });
    expect(await caller.state(id)).toBe('CANCELLED');
  });

  it.each([
    ['completed', 'COMPLETED', 'GA-3.13'],
    ['failed', 'FAILED', 'GA-3.14'],
    ['dead_letter', 'DEAD_LETTER', 'GA-3.15'],
    ['cancelled', 'CANCELLED', 'GA-3.05'],
  ] as const)('of a %s job, %s, comes too late [%s] [GA-3.05]', async (state, word, _id) => {
    const { caller, id, body } = await cancelOne(state);
    expect(body).toMatchObject({ status: 'ALREADY_COMPLETE', previous_state: word });
    expect(await caller.state(id)).toBe(word);
  });

  it('of a running job is noted, aborts its signal, and takes effect at its next checkpoint [GA-3.03] [GA-3.11]', async () => {
    const caller = await queue.caller();
    const gate = new Gate();
    const aborted = Promise.withResolvers<void>();
    const jobId = await caller.act(async (context) => {
      context.signal.addEventListener('abort', () => aborted.resolve());
      await gate.pass();
      await context.checkpoint(new Uint8Array([1]));
    });
    await gate.reached();
    const { body } = await caller.post(`/jobs/${jobId}/cancel`, { force: false });
    expect(body).toMatchObject({ status: 'CANCEL_REQUESTED', previous_state: 'RUNNING' });
    const { body: job } = await caller.get(`/jobs/${jobId}`);
    expect(job).toMatchObject({ state: 'RUNNING', cancel_requested_at: expect.any(String) });
    await aborted.promise;
    gate.open();
    await caller.reached(jobId, 'CANCELLED');
  });

  it.each([
    [false, 'GA-3.11'],
    [true, 'GA-3.12'],
  ])('of a running job with force %s interrupts a handler that heeds its signal [GA-3.03] [%s]', async (force, _id) => {
    const { caller, jobId } = await running();
    const { body } = await caller.post(`/jobs/${jobId}/cancel`, { force });
    expect(body.status).toBe('CANCEL_REQUESTED');
    await caller.reached(jobId, 'CANCELLED');
  });

  it('keeps its reason with the history [GA-3.02]', async () => {
    const caller = await queue.caller();
    const job = await queue.ledger.putJob('scheduled', { orgId: caller.orgId });
    await caller.post(`/jobs/${job.id}/cancel`, { reason: 'ordered twice' });
    const last = (await queue.ledger.eventsOf(job)).at(-1);
    expect(last).toMatchObject({ to_state: 'cancelled', detail: { reason: 'ordered twice' } });
    expect(last?.actor).toMatch(/^api_key:/);
    expect((await caller.post(`/jobs/${job.id}/cancel`, { reason: 'x'.repeat(1_001) })).status).toBe(400);
  });

  it('of no job is 404 with a body that is a result and an error in one [GA-3.05] [GA-6.14]', async () => {
    const caller = await queue.caller();
    const foreign = await (await queue.caller()).submit();
    for (const id of [randomUUID(), foreign, 'nonsense']) {
      const { status, body } = await caller.post(`/jobs/${id}/cancel`, {});
      expect(status).toBe(404);
      expect(body).toMatchObject({
        job_id: id,
        status: 'NOT_FOUND',
        previous_state: null,
        code: 'NOT_FOUND',
        details: [],
      });
      expect(body.request_id).toEqual(expect.any(String));
    }
  });
});

describe('a cancellation of many', () => {
  it('by ids counts what became of each [GA-3.17] [GA-3.19] [GA-3.22..26]', async () => {
    const caller = await queue.caller();
    const put = async (state: 'scheduled' | 'completed' | 'running') => (await queue.ledger.putJob(state, { orgId: caller.orgId })).id;
    const [ready, done, running, missing] = [await put('scheduled'), await put('completed'), await put('running'), randomUUID()];
    const { status, body } = await caller.post('/jobs/cancel', {
      job_ids: [ready, done, running, missing],
      reason: 'stop',
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      ...{ requested: 4, cancelled: 2, skipped: 1, failed: 1, dry_run: false },
      errors: [{ job_id: missing, code: 'NOT_FOUND', message: expect.any(String) }],
    });
    expect(await caller.state(ready)).toBe('CANCELLED');
    expect((await queue.ledger.eventsOf({ orgId: caller.orgId, seq: await seqOf(caller.orgId, ready) })).at(-1)?.detail).toEqual({
      reason: 'stop',
    });
  });

  it('by filter cancels what matches, in this org alone [GA-3.18]', async () => {
    const caller = await queue.caller();
    const other = await queue.caller();
    const foreign = await other.submit({ type: 'mail' });
    const mails = [await caller.submit({ type: 'mail' }), await caller.submit({ type: 'mail' })];
    const report = await caller.submit({ type: 'report' });
    const { body } = await caller.post('/jobs/cancel', { filter: { types: ['mail'], states: ['SCHEDULED'] } });
    expect(body).toMatchObject({ requested: 2, cancelled: 2, skipped: 0, failed: 0, errors: [] });
    for (const id of mails) expect(await caller.state(id)).toBe('CANCELLED');
    expect([await caller.state(report), await other.state(foreign)]).toEqual(['SCHEDULED', 'SCHEDULED']);
  });

  it('by a page of a filter cancels that page alone [GA-3.18]', async () => {
    const caller = await queue.caller();
    const [first, second] = [await caller.submit(), await caller.submit()];
    const { body } = await caller.post('/jobs/cancel', { filter: { order: 'CREATED_DESC', limit: 1 } });
    expect(body.requested).toBe(1);
    expect([await caller.state(first), await caller.state(second)]).toEqual(['SCHEDULED', 'CANCELLED']);
    const cursor = (await caller.post('/jobs/search', { limit: 1 })).body.next_cursor;
    expect((await caller.post('/jobs/cancel', { filter: { cursor } })).status).toBe(400);
  });

  it('as a dry run tells the same numbers and changes nothing [GA-3.21]', async () => {
    const caller = await queue.caller();
    for (const state of ['scheduled', 'retrying', 'running', 'failed'] as const) await queue.ledger.putJob(state, { orgId: caller.orgId });
    const before = (await caller.post('/jobs/search', {})).body;
    const dry = await caller.post('/jobs/cancel', { all: true, dry_run: true });
    expect(dry.body).toEqual({ requested: 4, cancelled: 3, skipped: 1, failed: 0, errors: [], dry_run: true });
    expect((await caller.post('/jobs/search', {})).body).toEqual(before);
    const { dry_run, ...wet } = (await caller.post('/jobs/cancel', { all: true, dry_run: false })).body;
    expect({ ...wet, dry_run: true }).toEqual(dry.body);
    expect(dry_run).toBe(false);
  });

  it('with force interrupts running handlers [GA-3.20]', async () => {
    const { caller, jobId } = await running();
    expect((await caller.post('/jobs/cancel', { job_ids: [jobId], force: true })).body.cancelled).toBe(1);
    await caller.reached(jobId, 'CANCELLED');
  });

  it.each([
    ['neither ids nor filter', {}],
    ['both', { job_ids: [randomUUID()], filter: { types: ['email'] } }],
    ['a filter without a condition', { filter: {} }],
    ['a filter without a condition, as a dry run', { filter: { tags: {}, order: 'CREATED_DESC' }, dry_run: true }],
    ['both a filter and all', { filter: { types: ['email'] }, all: true }],
    ['all: false', { all: false }],
    ['no ids', { job_ids: [] }],
    ['an unknown state', { filter: { states: ['GONE'] } }],
    ['an unknown member', { all: true, dryrun: true }],
  ])('is refused with %s [GA-3.17] [GA-3.18]', async (_what, request) => {
    const { status, body } = await (await queue.caller()).post('/jobs/cancel', request);
    expect([status, body.code]).toEqual([400, 'INVALID_REQUEST']);
  });
});

async function seqOf(orgId: string, id: string): Promise<number> {
  return Number((await queue.ledger.rowOf({ orgId, id })).seq);
}
