import { describe, expect, it } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import type { Scope } from '../../src/http/shared/identity.ts';
import type { TestJob } from '../ledger/fixture.ts';
import { type Answer, type Caller, QUEUE, useQueue } from './queue-fixture.ts';

const queue = useQueue();

/** How an operation is called, what it needs, and what a caller of another org gets. */
type Case = {
  scope: Scope;
  call(caller: Caller, job: TestJob): Promise<Answer>;
  /** Called with a job of another org, which must come to no harm. */
  wrongOrg(answer: Answer, job: TestJob): void;
};

const isAbsent: Case['wrongOrg'] = ({ status, body }) => expect([status, body.code]).toEqual([404, 'NOT_FOUND']);
const isForbidden: Case['wrongOrg'] = ({ status, body }) => expect([status, body.code]).toEqual([403, 'FORBIDDEN']);
const findsNothing: Case['wrongOrg'] = ({ body }) => expect(body).toMatchObject({ jobs: [], total_count: 0 });

const submission = { type: 'mail', payload: {} };

const CASES: Record<string, Case> = {
  submitJob: {
    scope: 'jobs:write',
    call: (caller, { orgId }) => caller.post('/jobs', { ...submission, org_id: orgId }),
    wrongOrg: isForbidden,
  },
  submitJobs: {
    scope: 'jobs:write',
    call: (caller, { orgId }) => caller.post('/jobs/batch', { jobs: [{ ...submission, org_id: orgId }] }),
    wrongOrg: ({ body }) => expect([body.accepted, body.results[0].error.code]).toEqual([0, 'FORBIDDEN']),
  },
  getJob: { scope: 'jobs:read', call: (caller, { id }) => caller.get(`/jobs/${id}`), wrongOrg: isAbsent },
  searchJobs: { scope: 'jobs:read', call: (caller) => caller.post('/jobs/search', {}), wrongOrg: findsNothing },
  listJobs: { scope: 'jobs:read', call: (caller) => caller.get('/jobs'), wrongOrg: findsNothing },
  getStats: {
    scope: 'jobs:read',
    call: (caller) => caller.get('/stats', { breakdown_by: 'TYPE' }),
    wrongOrg: ({ body }) => expect(body).toMatchObject({ failed: 0, submission_rate: 0, by_type: {} }),
  },
  cancelJob: {
    scope: 'jobs:cancel',
    call: (caller, { id }) => caller.post(`/jobs/${id}/cancel`, { force: true }),
    wrongOrg: isAbsent,
  },
  cancelJobs: {
    scope: 'jobs:cancel',
    call: (caller, { id }) => caller.post('/jobs/cancel', { job_ids: [id], force: true }),
    wrongOrg: ({ body }, { id }) => expect(body).toMatchObject({ cancelled: 0, failed: 1, errors: [{ job_id: id, code: 'NOT_FOUND' }] }),
  },
  getFailure: {
    scope: 'failures:read',
    call: (caller, { id }) => caller.get(`/jobs/${id}/failure`),
    wrongOrg: isAbsent,
  },
  searchFailures: {
    scope: 'failures:read',
    call: (caller) => caller.post('/failures/search', {}),
    wrongOrg: ({ body }) => expect(body).toMatchObject({ failures: [], total_count: 0, by_type: {} }),
  },
  retryJob: { scope: 'jobs:write', call: (caller, { id }) => caller.post(`/jobs/${id}/retry`, {}), wrongOrg: isAbsent },
  updateJob: {
    scope: 'jobs:write',
    call: (caller, { id }) => caller.patch(`/jobs/${id}`, { tags: { a: 'b' } }),
    wrongOrg: isAbsent,
  },
  explainJob: { scope: 'jobs:read', call: (caller, { id }) => caller.get(`/jobs/${id}/explain`), wrongOrg: isAbsent },
  followEvents: {
    scope: 'jobs:read',
    call: (caller, { orgId }) =>
      caller.firstEvent('/events', async () => {
        await queue.ledger.submitOne({ orgId, type: 'theirs' });
        await queue.ledger.submitOne({ orgId: caller.orgId, type: 'ours' });
      }),
    wrongOrg: ({ body }) => expect(body).toMatchObject({ type: 'ours', to_state: 'SCHEDULED' }),
  },
  followJob: {
    scope: 'jobs:read',
    call: (caller, { id }) => caller.firstEvent(`/jobs/${id}/events`, async () => {}),
    wrongOrg: isAbsent,
  },
};

const ADDRESSES = [
  'POST /jobs',
  'POST /jobs/batch',
  'GET /jobs/{id}',
  'POST /jobs/search',
  'GET /jobs',
  'GET /stats',
  'POST /jobs/{id}/cancel',
  'POST /jobs/cancel',
  'GET /jobs/{id}/failure',
  'POST /failures/search',
  'POST /jobs/{id}/retry',
  'PATCH /jobs/{id}',
  'GET /jobs/{id}/explain',
  'GET /events',
  'GET /jobs/{id}/events',
];

/** Operations that need no key. */
const OPEN = ['getHealth', 'getReadiness', 'getVersion'];

describe('every operation of the document', () => {
  it('has a case here, or is open to everybody', () => {
    const documented = queue.contract.operations.map(({ operation }) => operation.operationId);
    expect(documented.toSorted()).toEqual([...Object.keys(CASES), ...OPEN].toSorted());
  });

  it('is at the address and under the method that were agreed [GA-0.01]', () => {
    const addresses = queue.contract.operations.map(({ method, path }) => `${method} ${path}`);
    for (const address of ADDRESSES) expect(addresses).toContain(address.replace(' ', ` ${QUEUE}`));
  });

  it('says which scope it needs', () => {
    for (const { operation } of queue.contract.operations) {
      const scope = CASES[operation.operationId]?.scope;
      expect(operation.security).toEqual(scope === undefined ? [] : [{ bearer: [scope] }]);
    }
  });

  it('has a tag, a summary, a description and a description of each answer', () => {
    for (const { operation, path } of queue.contract.operations) {
      if (!path.startsWith(QUEUE)) continue;
      expect(operation.tags).toEqual(['queue']);
      expect(operation.summary).toMatch(/^[A-Z].{3,60}$/);
      expect(operation.description?.length).toBeGreaterThan(30);
      for (const response of Object.values(operation.responses)) expect(response.description).not.toBe('Default Response');
    }
  });
});

it('every example in the document is one that its shape allows', () => {
  expect(queue.contract.checkExamples()).toBeGreaterThan(8);
});

describe.each(Object.entries(CASES))('%s', (_operation, { scope, call, wrongOrg }) => {
  const foreignJob = () => queue.ledger.putJob('failed');

  it('is refused without a key [GA-6.18]', async () => {
    const { status, body } = await call(queue.nobody(), await foreignJob());
    expect([status, body.code]).toEqual([401, 'UNAUTHORIZED']);
  });

  it('is refused to a key with every scope but its own [GA-6.19]', async () => {
    const others = API_KEY_SCOPES.filter((each) => each !== scope);
    const caller = await (await queue.caller()).with(...others);
    const { status, body } = await call(caller, await foreignJob());
    expect([status, body.code]).toEqual([403, 'FORBIDDEN']);
    expect(body.message).toContain(scope);
  });

  it('never reaches a job of another org [GA-6.14]', async () => {
    const job = await foreignJob();
    const before = await queue.ledger.rowOf(job);
    const caller = await (await queue.caller()).with(scope);
    wrongOrg(await call(caller, job), job);
    expect(await queue.ledger.rowOf(job)).toEqual(before);
  });
});
