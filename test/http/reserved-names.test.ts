import { describe, expect, it } from 'vitest';
import { PermanentError } from '../../src/core/failure.ts';
import { RESERVED_NAMES } from '../../src/core/reserved-names.ts';
import type { TestJob } from '../ledger/fixture.ts';
import { type Caller, useQueue } from './queue-fixture.ts';

const queue = useQueue();
const NAMES = [...RESERVED_NAMES];
const ORIGINAL = Object.getOwnPropertyNames(Object.prototype).toSorted();

/** A job as an earlier version accepted it. */
const oldJob = (caller: Caller, name: string): Promise<TestJob> =>
  queue.ledger.submitOne({
    orgId: caller.orgId,
    job: { type: name, tags: Object.fromEntries([[name, 'x']]) },
  });

const expectUntouched = () => {
  const added = Object.getOwnPropertyNames(Object.prototype).filter((name) => !ORIGINAL.includes(name));
  // Taken back, so that the tests behind this one are not about the same fault.
  for (const name of added) Reflect.deleteProperty(Object.prototype, name);
  expect(added).toEqual([]);
};

describe('jobs with reserved names from before the rule', () => {
  it('are counted by type, and the count changes nothing for other orgs [GA-2.64]', async () => {
    const caller = await queue.caller();
    for (const name of NAMES) await oldJob(caller, name);
    const { status, body } = await caller.get('/stats', { breakdown_by: 'TYPE' });
    expectUntouched();
    expect(status).toBe(200);
    expect(Object.keys(body.by_type).toSorted()).toEqual(NAMES.toSorted());
    for (const counts of Object.values(body.by_type)) expect(counts).toEqual({ pending: 1, running: 0, completed: 0, failed: 0 });
    const other = await queue.caller();
    const jobId = await other.act(() => 'done');
    expect(await other.reached(jobId, 'COMPLETED')).toMatchObject({ state: 'COMPLETED' });
  });

  it.each(NAMES)('%s is read, searched and cancelled', async (name) => {
    const caller = await queue.caller();
    const { id } = await oldJob(caller, name);
    const read = await caller.get(`/jobs/${id}`);
    expect([read.status, read.body.type, Object.keys(read.body.tags)]).toEqual([200, name, [name]]);
    for (const [member, text] of [
      ['types', name],
      ['tags', `${name}:x`],
    ] as const) {
      const { status, body } = await caller.get('/jobs', { [member]: text });
      expect([status, body.jobs.map((job: { job_id: string }) => job.job_id)]).toEqual([200, [id]]);
    }
    expect((await caller.post(`/jobs/${id}/cancel`, {})).status).toBe(200);
    expectUntouched();
  });

  it('their failures are counted by type and by code', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(() => {
      throw new PermanentError('odd', { code: '__proto__' });
    });
    await caller.reached(jobId, 'FAILED');
    const { status, body } = await caller.post('/failures/search', {});
    expect([status, Object.entries(body.by_code)]).toEqual([200, [['__proto__', 1]]]);
    expectUntouched();
  });
});

describe('a new job', () => {
  it.each(NAMES)('may not have %s as its type, nor be given it later [GA-1.02]', async (name) => {
    const caller = await queue.caller();
    const refused = await caller.post('/jobs', { type: name, payload: {} });
    expect([refused.status, refused.body.details[0].code]).toEqual([400, 'RESERVED_NAME']);
    expect(refused.body.details[0].message).toContain('Choose another one');
    const many = await caller.post('/jobs/batch', { jobs: [{ type: name, payload: {} }], atomic: false });
    expect(many.body).toMatchObject({ accepted: 0, rejected: 1 });
    const jobId = await caller.submit();
    expect((await caller.patch(`/jobs/${jobId}`, { type: name })).status).toBe(400);
    expectUntouched();
  });

  it.each(NAMES)('may not have a tag called %s', async (name) => {
    const caller = await queue.caller();
    const body = JSON.parse(`{"type":"plain","payload":{},"tags":{"${name}":"x"}}`);
    expect((await caller.post('/jobs', body)).status).toBe(400);
    expectUntouched();
  });
});
