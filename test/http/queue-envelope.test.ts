import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import type { Handler } from '../../src/engine/work/registry.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { newProject } from '../ledger/new-project.ts';
import { Caller, randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue({ type: 'kept', handler: async () => null });

const traceparent = () => `00-${randomUUID().replaceAll('-', '')}-${randomId()}0001-01`;
const submission = (more: object = {}) => ({ type: 'kept', payload: { id: randomId() }, ...more });

/** Submits one of its kind and answers it as it is shown. */
async function shown(caller: Caller, more: object, headers: Record<string, string> = {}) {
  const { status, body } = await caller.post('/jobs', submission(more), headers);
  expect(status).toBe(202);
  return (await caller.get(`/jobs/${body.job_id}`)).body;
}

async function ofProject(caller: Caller, projectId: string): Promise<Caller> {
  await newProject(queue.ledger.db, caller.orgId, projectId);
  const { key } = await createKey(queue.ledger.db, { orgId: caller.orgId, projectId, scopes: API_KEY_SCOPES });
  return new Caller(queue, caller.orgId, key);
}

describe('category, project and trace', () => {
  const given = { category: 'planning', project_id: randomUUID(), traceparent: traceparent() };
  const withProject = async () => {
    const caller = await queue.caller();
    await newProject(queue.ledger.db, caller.orgId, given.project_id);
    return caller;
  };

  it('are kept with the job, whatever else it has [AB-contract.04] [AB-contract.13]', async () => {
    const caller = await withProject();
    for (const more of [{}, { idempotency_key: 'k' }, { tags: { a: 'b' }, correlation_id: 'c' }, { queue: 'q:planning' }])
      expect(await shown(caller, { ...given, ...more })).toMatchObject({ ...given, ...more });
  });

  it('are null where they were left out', async () => {
    const caller = await queue.caller();
    const nothing = { category: null, project_id: null, traceparent: null };
    expect(await shown(caller, {})).toMatchObject(nothing);
    expect(await shown(caller, nothing)).toMatchObject(nothing);
  });

  it('are kept for each job of a batch, also next to jobs without one', async () => {
    const caller = await withProject();
    const jobs = [given, {}, { ...given, category: 'maintenance' }, { traceparent: traceparent() }].map((each) => submission(each));
    const { body } = await caller.post('/jobs/batch', { jobs });
    for (const [index, { job_id }] of body.results.entries()) {
      const { payload: _, ...sent } = jobs[index] as { payload: object };
      const none = { category: null, project_id: null, traceparent: null };
      expect((await caller.get(`/jobs/${job_id}`)).body).toMatchObject({ ...none, ...sent });
    }
  });

  it.each([
    [{ category: 'Very Important' }, 'category'],
    [{ category: 'reports' }, 'category'],
    [{ project_id: 'mine' }, 'project_id'],
    [{ traceparent: `00-${'0'.repeat(32)}-00f067aa0ba902b7-01` }, 'traceparent'],
    [{ projectId: randomUUID() }, 'projectId'],
  ])('%j is refused by name', async (members, field) => {
    const caller = await queue.caller();
    const { status, body } = await caller.post('/jobs', submission(members));
    expect(status).toBe(400);
    expect(body.details).toMatchObject([{ field, message: expect.stringContaining(field) }]);
  });

  it('reach the handler, with the request and the key that submitted the job [AB-contract.05] [AB-contract.06] [AB-contract.13]', async () => {
    const caller = await withProject();
    const facts: Handler = ({ traceparent, correlationId, requestId, category, actor }) => ({
      ...{ traceparent, correlationId, requestId, category, actor },
    });
    const job = await caller.reached(await caller.act(facts, given), 'COMPLETED');
    expect(job.result.output).toEqual({
      ...{ traceparent: given.traceparent, correlationId: job.request_id, requestId: job.request_id, category: given.category },
      actor: { type: 'api_key', id: expect.stringMatching(/^[0-9A-Za-z]{13}$/) },
    });
  });

  it('of a job are those of its children too, unless they say otherwise', async () => {
    const caller = await withProject();
    const other = await newProject(queue.ledger.db, caller.orgId);
    const child = (projectId?: string) => ({ type: 'child', payload: {}, projectId });
    const jobId = await caller.act(async (context) => [await context.spawn(child()), await context.spawn(child(other))], given);
    const parent = await caller.reached(jobId, 'COMPLETED');
    const [same, moved] = await Promise.all(parent.result.output.map(async (id: string) => (await caller.get(`/jobs/${id}`)).body));
    const { project_id, traceparent, request_id, correlation_id } = parent;
    expect(same).toMatchObject({ project_id, traceparent, request_id, correlation_id, category: null });
    expect(moved).toMatchObject({ project_id: other, traceparent, request_id, correlation_id });
  });
});

describe('the header traceparent', () => {
  it('serves jobs that have none of their own [AB-contract.13]', async () => {
    const caller = await queue.caller();
    const [own, header] = [traceparent(), traceparent()];
    expect(await shown(caller, {}, { traceparent: header })).toMatchObject({ traceparent: header });
    expect(await shown(caller, { traceparent: own }, { traceparent: header })).toMatchObject({ traceparent: own });
    const { body } = await caller.post('/jobs/batch', { jobs: [submission()] }, { traceparent: header });
    expect((await caller.get(`/jobs/${body.results[0].job_id}`)).body.traceparent).toBe(header);
  });

  it('is passed over when it is not valid', async () => {
    const caller = await queue.caller();
    for (const header of ['nonsense', `ff${traceparent().slice(2)}`, traceparent().toUpperCase()])
      expect(await shown(caller, {}, { traceparent: header })).toMatchObject({ traceparent: null });
  });

  it('does not make a repeat another request', async () => {
    const caller = await queue.caller();
    const same = submission({ idempotency_key: 'k' });
    const first = await caller.post('/jobs', same, { traceparent: traceparent(), 'x-request-id': 'one' });
    const again = await caller.post('/jobs', same, { traceparent: traceparent(), 'x-request-id': 'two' });
    expect(again.status).toBe(200);
    expect(again.body.existing_job_id).toBe(first.body.job_id);
  });
});

describe('a project', () => {
  it('of the key is that of its jobs; another is refused with 403 [AB-contract.04]', async () => {
    const project = randomUUID();
    const caller = await ofProject(await queue.caller(), project);
    expect(await shown(caller, {})).toMatchObject({ project_id: project });
    expect(await shown(caller, { project_id: project.toUpperCase() })).toMatchObject({ project_id: project });
    const job = submission({ project_id: randomUUID() });
    const refusal = { code: 'FORBIDDEN', details: [{ field: 'project_id', code: 'WRONG_PROJECT' }] };
    const { status, body } = await caller.post('/jobs', job);
    expect(status).toBe(403);
    expect(body).toMatchObject(refusal);
    const batch = await caller.post('/jobs/batch', { jobs: [job] });
    expect(batch.body).toMatchObject({ accepted: 0, results: [{ error: refusal }] });
  });

  it('is part of the scope of a key: one key in two projects gives two jobs [AB-idem.04]', async () => {
    const caller = await queue.caller();
    const same = submission({ idempotency_key: 'k' });
    const [one, other] = [await newProject(queue.ledger.db, caller.orgId), await newProject(queue.ledger.db, caller.orgId)];
    const ids = await Promise.all(
      [{}, { project_id: one }, { project_id: other }].map(async (more) => {
        const { status, body } = await caller.post('/jobs', { ...same, ...more });
        expect(status).toBe(202);
        return body.job_id;
      }),
    );
    expect(new Set(ids).size).toBe(3);
    const again = await (await ofProject(caller, one)).post('/jobs', same);
    expect(again.body).toMatchObject({ status: 'DUPLICATE', existing_job_id: ids[1] });
    expect(await checkInvariants(queue.ledger.db.maintenance)).toEqual([]);
  });
});

describe('the request of a job', () => {
  it('is named by the caller, and correlates the job where nothing else does [AB-contract.07] [AB-contract.08]', async () => {
    const caller = await queue.caller();
    const named = { 'x-request-id': 'r-4711' };
    const ids = { request_id: 'r-4711', correlation_id: 'r-4711' };
    expect(await shown(caller, {}, named)).toMatchObject(ids);
    expect(await shown(caller, { correlation_id: 'c' }, named)).toMatchObject({ ...ids, correlation_id: 'c' });
    const { body } = await caller.post('/jobs/batch', { jobs: [submission(), submission()] }, named);
    for (const { job_id } of body.results) expect((await caller.get(`/jobs/${job_id}`)).body).toMatchObject(ids);
  });

  it('has an id also where the caller gave none: the one it was answered with [AB-contract.07] [AB-contract.08]', async () => {
    const caller = await queue.caller();
    const { body, headers } = await caller.post('/jobs', submission());
    const ids = { request_id: headers.get('x-request-id'), correlation_id: headers.get('x-request-id') };
    expect((await caller.get(`/jobs/${body.job_id}`)).body).toMatchObject(ids);
    const batch = await caller.post('/jobs/batch', { jobs: [submission(), submission()] });
    const request_id = batch.headers.get('x-request-id');
    for (const { job_id } of batch.body.results) expect((await caller.get(`/jobs/${job_id}`)).body).toMatchObject({ request_id });
  });

  it('never gives a job an id of the caller’s choice', async () => {
    const caller = await queue.caller();
    const wanted = randomUUID();
    const { body } = await caller.post('/jobs', submission(), { 'x-request-id': wanted });
    expect(body.job_id).not.toBe(wanted);
  });
});
