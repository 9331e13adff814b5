import { describe, expect, it } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import type { Scope } from '../../src/http/shared/identity.ts';
import type { TestJob } from '../ledger/fixture.ts';
import { useArtifacts } from './artifact-fixture.ts';
import { type Answer, type Caller, QUEUE } from './queue-fixture.ts';

const { queue } = useArtifacts();

/** How an operation is called, what it needs, and what a caller of another org gets. */
type Case = {
  scope: Scope;
  /** The document names no scope, because the action decides, or any of these is enough. */
  anyOf?: readonly Scope[];
  call(caller: Caller, job: TestJob): Promise<Answer>;
  /** Called with a job of another org, which must come to no harm. */
  wrongOrg(answer: Answer, job: TestJob): void;
};

const isAbsent: Case['wrongOrg'] = ({ status, body }) => expect([status, body.code]).toEqual([404, 'NOT_FOUND']);
const isForbidden: Case['wrongOrg'] = ({ status, body }) => expect([status, body.code]).toEqual([403, 'FORBIDDEN']);
const findsNothing: Case['wrongOrg'] = ({ body }) => expect(body).toMatchObject({ jobs: [], total_count: 0 });

const submission = { type: 'mail', payload: {} };
const schedule = { ...submission, cron: '@daily' };

/** The caller has no schedule with this key. What another org has is in schedules-owners.test.ts. */
const onSchedule = (scope: Scope, call: (caller: Caller, path: string) => Promise<Answer>): Case => ({
  scope,
  call: (caller, { id }) => call(caller, `/schedules/${id}`),
  wrongOrg: isAbsent,
});

const OPERATORS: readonly Scope[] = ['deadletter:manage', 'jobs:write', 'jobs:cancel'];

/** The caller has no operation with this id. What another org has is in operations.test.ts. */
const onOperation = (call: (caller: Caller, path: string) => Promise<Answer>): Case => ({
  scope: 'jobs:read',
  anyOf: ['jobs:read', 'failures:read', ...OPERATORS],
  call: (caller, { id }) => call(caller, `/operations/${id}`),
  wrongOrg: isAbsent,
});

const onEntry = (scope: Scope, call: (caller: Caller, path: string) => Promise<Answer>): Case => ({
  ...{ scope, wrongOrg: isAbsent, call: (caller, { id }) => call(caller, `/deadletter/${id}`) },
});

/** The caller has no batch with this id. What another org has is in queue-batches.test.ts. */
const onBatch = (scope: Scope, call: (caller: Caller, path: string) => Promise<Answer>): Case => ({
  ...{ scope, wrongOrg: isAbsent, call: (caller, { id }) => call(caller, `/batches/${id}`) },
});

const CASES: Record<string, Case> = {
  createBatch: { scope: 'jobs:write', call: (caller) => caller.post('/batches'), wrongOrg: ({ status }) => expect(status).toBe(201) },
  getBatch: onBatch('jobs:read', (caller, path) => caller.get(path)),
  listBatchFailures: onBatch('jobs:read', (caller, path) => caller.get(`${path}/failures`)),
  closeBatch: onBatch('jobs:write', (caller, path) => caller.post(`${path}/close`)),
  putBatchPiece: onBatch('jobs:write', (caller, path) =>
    caller.send('PUT', `${path}/parts/0`, { jobs: [{ type: 'simulate', payload: {} }] }),
  ),
  listDeadLetters: {
    scope: 'failures:read',
    call: (caller) => caller.get('/deadletter'),
    wrongOrg: ({ body }) => expect(body).toEqual({ items: [], next_cursor: null }),
  },
  groupDeadLetters: {
    scope: 'failures:read',
    call: (caller) => caller.get('/deadletter/groups'),
    wrongOrg: ({ body }) => expect(body.items).toEqual([]),
  },
  getDeadLetter: onEntry('failures:read', (caller, path) => caller.get(path)),
  replayDeadLetter: onEntry('deadletter:manage', (caller, path) => caller.post(`${path}/replay`)),
  discardDeadLetter: onEntry('deadletter:manage', (caller, path) => caller.post(`${path}/discard`)),
  restoreDeadLetter: onEntry('deadletter:manage', (caller, path) => caller.post(`${path}/restore`)),
  fixForward: onEntry('deadletter:manage', (caller, path) => caller.post(`${path}/fix-forward`, { payload: {} })),
  createOperation: {
    scope: 'deadletter:manage',
    anyOf: ['deadletter:manage'],
    call: (caller, { id }) => caller.post('/operations', { action: 'replay', job_ids: [id], dry_run: true }),
    wrongOrg: ({ body }) => expect(body).toEqual({ matching: 0, sample: [] }),
  },
  listOperations: {
    ...onOperation((caller) => caller.get('/operations')),
    wrongOrg: ({ body }) => expect(body).toEqual({ items: [], next_cursor: null }),
  },
  getOperation: onOperation((caller, path) => caller.get(path)),
  listOperationItems: onOperation((caller, path) => caller.get(`${path}/items`)),
  pauseOperation: onOperation((caller, path) => caller.post(`${path}/pause`)),
  resumeOperation: onOperation((caller, path) => caller.post(`${path}/resume`)),
  stopOperation: onOperation((caller, path) => caller.post(`${path}/stop`)),
  undoOperation: onOperation((caller, path) => caller.post(`${path}/undo`)),
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
  listCategories: {
    scope: 'jobs:read',
    call: (caller) => caller.get('/categories'),
    // They are the same for every org.
    wrongOrg: ({ body }) => expect(body.items).toHaveLength(5),
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
  listAudit: {
    scope: 'audit:read',
    call: (caller, { id }) => caller.get('/audit', { job_id: id }),
    wrongOrg: ({ body }) => expect(body).toEqual({ items: [], next_cursor: null }),
  },
  readLogs: { scope: 'jobs:read', call: (caller, { id }) => caller.get(`/jobs/${id}/logs`), wrongOrg: isAbsent },
  getIdempotencyKey: { scope: 'jobs:read', call: (caller, { id }) => caller.get(`/idempotency-keys/${id}`), wrongOrg: isAbsent },
  listArtifacts: { scope: 'jobs:read', call: (caller, { id }) => caller.get(`/jobs/${id}/artifacts`), wrongOrg: isAbsent },
  // What another org has is in artifacts.test.ts.
  uploadArtifact: {
    scope: 'jobs:write',
    call: (caller) => caller.send('POST', '/artifacts'),
    wrongOrg: ({ status }) => expect(status).toBe(201),
  },
  getArtifact: { scope: 'jobs:read', call: (caller, { id }) => caller.get(`/artifacts/${id}`), wrongOrg: isAbsent },
  getArtifactContent: { scope: 'jobs:read', call: (caller, { id }) => caller.get(`/artifacts/${id}/content`), wrongOrg: isAbsent },
  linkArtifact: { scope: 'jobs:read', call: (caller, { id }) => caller.post(`/artifacts/${id}/link`, {}), wrongOrg: isAbsent },
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
  listSchedules: {
    scope: 'jobs:read',
    call: (caller) => caller.get('/schedules'),
    wrongOrg: ({ body }) => expect(body).toEqual({ items: [], next_cursor: null }),
  },
  createSchedule: {
    scope: 'jobs:write',
    call: (caller, { id }) => caller.post('/schedules', { ...schedule, key: id }),
    wrongOrg: ({ status }) => expect(status).toBe(201),
  },
  putSchedule: {
    scope: 'jobs:write',
    call: (caller, { id }) => caller.send('PUT', `/schedules/${id}`, schedule),
    wrongOrg: ({ status }) => expect(status).toBe(201),
  },
  getSchedule: onSchedule('jobs:read', (caller, path) => caller.get(path)),
  nextRuns: onSchedule('jobs:read', (caller, path) => caller.get(`${path}/next`)),
  changeSchedule: onSchedule('jobs:write', (caller, path) => caller.patch(path, { paused: true })),
  runSchedule: onSchedule('jobs:write', (caller, path) => caller.post(`${path}/run`)),
  deleteSchedule: onSchedule('jobs:write', (caller, path) => caller.send('DELETE', path)),
};

const ADDRESSES = [
  'POST /jobs',
  'POST /jobs/batch',
  'GET /jobs/{id}',
  'POST /jobs/search',
  'GET /jobs',
  'GET /stats',
  'GET /categories',
  'POST /jobs/{id}/cancel',
  'POST /jobs/cancel',
  'GET /jobs/{id}/failure',
  'POST /failures/search',
  'POST /jobs/{id}/retry',
  'PATCH /jobs/{id}',
  'GET /jobs/{id}/explain',
  'GET /jobs/{id}/logs',
  'GET /idempotency-keys/{key}',
  'GET /jobs/{id}/artifacts',
  'POST /artifacts',
  'GET /artifacts/{artifact_id}',
  'GET /artifacts/{artifact_id}/content',
  'POST /artifacts/{artifact_id}/link',
  'GET /events',
  'GET /jobs/{id}/events',
  'GET /schedules',
  'POST /schedules',
  'GET /schedules/{key}',
  'PUT /schedules/{key}',
  'PATCH /schedules/{key}',
  'DELETE /schedules/{key}',
  'POST /schedules/{key}/run',
  'GET /schedules/{key}/next',
  'GET /deadletter',
  'GET /deadletter/groups',
  'GET /deadletter/{job_id}',
  ...['replay', 'discard', 'restore', 'fix-forward'].map((action) => `POST /deadletter/{job_id}/${action}`),
  'POST /operations',
  'GET /operations',
  'GET /operations/{operation_id}',
  'GET /operations/{operation_id}/items',
  ...['pause', 'resume', 'stop', 'undo'].map((control) => `POST /operations/{operation_id}/${control}`),
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
      const { scope, anyOf } = CASES[operation.operationId] ?? {};
      const orLink = operation.operationId === 'getArtifactContent' ? [{}] : [];
      expect(operation.security).toEqual(scope === undefined ? [] : [{ bearer: anyOf === undefined ? [scope] : [] }, ...orLink]);
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

describe.each(Object.entries(CASES))('%s', (_operation, { scope, anyOf = [scope], call, wrongOrg }) => {
  const foreignJob = () => queue.ledger.putJob('failed');

  it('is refused without a key [GA-6.18]', async () => {
    const { status, body } = await call(queue.nobody(), await foreignJob());
    expect([status, body.code]).toEqual([401, 'UNAUTHORIZED']);
  });

  it('is refused to a key with every scope but its own [GA-6.19]', async () => {
    const others = API_KEY_SCOPES.filter((each) => !anyOf.includes(each));
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
