import { beforeAll, describe, expect, it } from 'vitest';
import { type Query, type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const FUTURE = '2040-01-15T10:30:00Z';

let client: TestClient;
/** Ids by what they are. */
let jobs: Record<'done' | 'failed' | 'canceled' | 'waiting' | 'emitted' | 'retried', string>;

beforeAll(async () => {
  client = await server.client();
  const done = await client.submit({ work_kind: 'SUCCESS_FAST' });
  const failed = await client.submit({ work_kind: 'FAIL_IMMEDIATE' });
  const canceled = await client.submit({ type: 'DEFERRED', execution_at: FUTURE, work_kind: 'SUCCESS_FAST' });
  const waiting = await client.submit({ type: 'DEFERRED', execution_at: FUTURE, work_kind: 'SUCCESS_SLOW' });
  const emitted = await client.submit({ type: 'EMIT_EVENT', work_kind: 'PAYLOAD_SMALL' });
  const retried = await client.submit({ work_kind: 'RETRY_ON_FAIL' });
  await client.reached(retried, 'FAILED');
  await client.reached(emitted, 'SUCCEEDED');
  await client.reached(failed, 'FAILED');
  await client.reached(done, 'SUCCEEDED');
  await client.post(`/jobs/${canceled}/cancel`);
  jobs = { done, failed, canceled, waiting, emitted, retried };
});

async function listed(query: Query = {}, by: TestClient = client): Promise<string[]> {
  const names = new Map(Object.entries(jobs).map(([name, id]) => [id, name]));
  const { status, body } = await by.get('/jobs', query);
  expect(status).toBe(200);
  return body.jobs.map(({ job_id }: { job_id: string }) => names.get(job_id));
}

const ALL = ['retried', 'emitted', 'waiting', 'canceled', 'failed', 'done'];

describe('GET /v1/jobs', () => {
  it('shows every job of the client, newest first, as the job itself shows it [FR-01.05]', async () => {
    expect(await listed()).toEqual(ALL);
    const { body } = await client.get('/jobs');
    expect(body).toMatchObject({ next_cursor: null, has_more: false });
    for (const job of body.jobs) expect(job).toEqual((await client.get(`/jobs/${job.job_id}`)).body);
  });

  it.each([
    [{ states: 'FAILED' }, ['retried', 'failed']],
    [{ states: ['SUCCEEDED', 'CANCELED'] }, ['emitted', 'canceled', 'done']],
    [{ states: 'CREATED' }, ['waiting']],
    [{ states: 'QUEUED,ASSIGNED,RUNNING' }, []],
    [{ outcomes: 'SUCCESS' }, ['emitted', 'done']],
    [{ outcomes: 'FAILED,CANCELED' }, ['retried', 'canceled', 'failed']],
    [{ outcomes: 'SUCCESS', states: 'FAILED' }, []],
    [{ types: 'DEFERRED' }, ['waiting', 'canceled']],
    [{ types: ['DEFERRED', 'EMIT_EVENT'] }, ['emitted', 'waiting', 'canceled']],
    [{ work_kinds: 'SUCCESS_FAST' }, ['canceled', 'done']],
    [{ work_kinds: 'SUCCESS_FAST,SUCCESS_SLOW' }, ['waiting', 'canceled', 'done']],
    [{ work_kinds: 'SUCCESS_FAST', types: 'EXECUTE' }, ['done']],
    [{ created_before: '2001-01-01T00:00:00Z' }, []],
    [{ created_after: '2001-01-01T00:00:00Z' }, ALL],
    [{ updated_after: '2039-01-01T00:00:00Z' }, []],
  ] as [Query, string[]][])('finds by %j', async (query, expected) => {
    expect(await listed(query)).toEqual(expected);
  });

  it('finds by the time of acceptance and of the last change, and orders by either', async () => {
    const { created_at, updated_at } = (await client.get(`/jobs/${jobs.canceled}`)).body;
    expect(await listed({ created_before: created_at })).toEqual(['failed', 'done']);
    expect(await listed({ created_after: created_at })).toEqual(expect.arrayContaining(['retried', 'emitted', 'waiting']));
    expect((await listed({ order: 'updated' })).at(0)).toBe('canceled');
    expect(await listed({ updated_after: updated_at, order: 'updated' })).toEqual(expect.not.arrayContaining(['done', 'failed']));
  });

  it('takes state as another name of states, and includes the states of both', async () => {
    expect(await listed({ state: 'FAILED' })).toEqual(await listed({ states: 'FAILED' }));
    expect(await listed({ state: 'SUCCEEDED,CREATED' })).toEqual(await listed({ states: ['SUCCEEDED', 'CREATED'] }));
    expect(await listed({ state: 'FAILED', states: 'CANCELED' })).toEqual(await listed({ states: 'FAILED,CANCELED' }));
    expect((await client.get('/reports', { state: 'CANCELED' })).body.totals).toMatchObject({ jobs: 1 });
  });

  it('finds jobs by id on one page, and leaves out unknown ids', async () => {
    const ids = [jobs.done, jobs.waiting, jobs.done.toUpperCase(), 'none', 'ffffffff-ffff-4fff-bfff-ffffffffffff'];
    expect(await listed({ ids, limit: '1' })).toEqual(['waiting', 'done']);
    expect(await listed({ ids, states: 'CREATED' })).toEqual(['waiting']);
    expect(await listed({ ids, created_before: '2001-01-01T00:00:00Z' })).toEqual([]);
    expect(await listed({ ids: [jobs.canceled, jobs.waiting], order: 'updated' })).toEqual(['canceled', 'waiting']);
    expect(await listed({ ids: 'none' })).toEqual([]);
  });

  it.each([{}, { order: 'updated' }, { states: ['SUCCEEDED', 'CREATED'] }, { work_kinds: 'SUCCESS_FAST,FAIL_IMMEDIATE' }])(
    'gives page after page, each job once, by %j',
    async (query) => {
      const whole = await listed(query as Query);
      const pages: string[] = [];
      const names = new Map(Object.entries(jobs).map(([name, id]) => [id, name]));
      let cursor: string | null = null;
      do {
        const { body } = await client.get('/jobs', {
          ...(query as Query),
          limit: '1',
          ...(cursor === null ? {} : { cursor }),
        });
        for (const { job_id } of body.jobs) pages.push(names.get(job_id) as string);
        expect(body.has_more).toBe(body.next_cursor !== null);
        cursor = body.next_cursor;
      } while (cursor !== null);
      expect(pages).toEqual(whole);
    },
  );

  it.each([
    [{ states: 'DONE' }, 'states'],
    [{ outcomes: 'SUCCEEDED' }, 'outcomes'],
    [{ work_kinds: 'FAST' }, 'work_kinds'],
    [{ limit: '0' }, 'limit'],
    [{ limit: '1001' }, 'limit'],
    [{ order: 'newest' }, 'order'],
    [{ cursor: 'x' }, 'cursor'],
    [{ created_after: 'yesterday' }, 'created_after'],
    [{ updated_after: '2024-01-15T10:30:00+02:00' }, 'updated_after'],
    [{ state: 'DONE' }, 'state'],
    [{ status: 'FAILED' }, 'status'],
    [{ created_before: ' 2024-01-15T10:30:00Z' }, 'created_before'],
    [{ updated_after: '2024-01-15T10:30:00Z ' }, 'updated_after'],
  ] as [Query, string][])('refuses %j', async (query, field) => {
    const { status, body } = await client.get('/jobs', query);
    expect(status).toBe(400);
    expect(body.code).toMatch(/^RFA_(?:JOB_VALIDATION_FAILED|REQUEST_MALFORMED)$/);
    expect(JSON.stringify(body.errors)).toContain(field);
  });

  it('needs the scope to read jobs', async () => {
    const writer = await client.with('jobs:write');
    expect((await writer.get('/jobs')).status).toBe(403);
    expect((await writer.get('/reports')).status).toBe(403);
    expect((await client.holding(null).get('/jobs')).status).toBe(401);
  });
});
