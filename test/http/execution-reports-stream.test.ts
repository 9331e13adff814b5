import { beforeAll, describe, expect, it } from 'vitest';
import type { ExecutionRequest } from '../../src/services/execution/execution-request.ts';
import { submitExecution } from '../../src/services/execution/submit-execution.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const FUTURE = '2040-01-15T10:30:00Z';

let client: TestClient;
let ids: string[];

beforeAll(async () => {
  client = await server.client();
  const done = await client.submit({ work_kind: 'SUCCESS_FAST' });
  const failed = await client.submit({ work_kind: 'FAIL_IMMEDIATE' });
  const retried = await client.submit({ work_kind: 'RETRY_ON_FAIL' });
  await client.reached(retried, 'FAILED');
  const canceled = await client.submit({ type: 'DEFERRED', execution_at: FUTURE, work_kind: 'SUCCESS_FAST' });
  await client.post(`/jobs/${canceled}/cancel`);
  const waiting = await client.submit({ type: 'DEFERRED', execution_at: FUTURE, work_kind: 'SCHEDULED_FAR_FUTURE' });
  await client.post(`/jobs/${retried}/retry`);
  await client.reached(retried, 'SUCCEEDED');
  await client.reached(done, 'SUCCEEDED');
  await client.reached(failed, 'FAILED');
  ids = [waiting, canceled, retried, failed, done];
});

const lines = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('GET /v1/reports', () => {
  it('reports every job with its final state and outcome, and the totals [FR-01.05] [FR-02.01]', async () => {
    const { status, body } = await client.get('/reports');
    expect(status).toBe(200);
    expect(body.reports.map(({ job_id }: { job_id: string }) => job_id)).toEqual(ids);
    expect(body.reports.map(({ state, outcome }: Record<string, string>) => `${state} ${outcome}`)).toEqual([
      ...['CREATED null', 'CANCELED CANCELED', 'SUCCEEDED SUCCESS', 'FAILED FAILED', 'SUCCEEDED SUCCESS'],
    ]);
    expect(body.totals).toEqual({
      jobs: 5,
      by_state: { CREATED: 1, CANCELED: 1, SUCCEEDED: 2, FAILED: 1 },
      by_outcome: { CANCELED: 1, SUCCESS: 2, FAILED: 1 },
      by_work_kind: { SCHEDULED_FAR_FUTURE: 1, SUCCESS_FAST: 2, RETRY_ON_FAIL: 1, FAIL_IMMEDIATE: 1 },
    });
  });

  it('says of each job what its own report says [FR-01.05]', async () => {
    const { reports } = (await client.get('/reports', { events: 'true' })).body;
    const plain = (await client.get('/reports')).body.reports;
    for (const [index, { events, ...row }] of reports.entries()) {
      expect(row).toEqual(plain[index]);
      if (row.outcome === null) continue;
      const report = await client.report(row.job_id);
      const { job_id, started_at, finished_at, duration_ms, outcome, failure } = row;
      expect(report).toEqual({ job_id, events, started_at, finished_at, duration_ms, outcome, failure });
    }
    expect(reports[0]).toMatchObject({ duration_ms: null, finished_at: null, events: [{ event_name: 'job.created' }] });
  });

  it.each([
    ['format', { format: 'ndjson' }, {}],
    ['Accept', {}, { accept: 'application/x-ndjson' }],
    ['weight', {}, { accept: 'application/json;q=0.5, application/x-ndjson' }],
  ])('gives a line for each job as NDJSON, asked for by %s', async (_, query, headers) => {
    const { status, body, headers: answered } = await client.get('/reports', query, headers);
    expect(status).toBe(200);
    expect(answered.get('content-type')).toContain('application/x-ndjson');
    expect(lines(body)).toEqual((await client.get('/reports')).body.reports);
  });

  it.each([
    ['format', { format: 'csv' }, { accept: 'application/json' }],
    ['Accept', {}, { accept: 'text/csv' }],
  ])('gives CSV with a header, asked for by %s', async (_, query, headers) => {
    const { body, headers: answered } = await client.get('/reports', query, headers);
    expect(answered.get('content-type')).toContain('text/csv');
    const [header, ...rows] = body.trim().split('\r\n');
    expect(header).toMatch(/^job_id,type,work_kind,state,outcome,attempt,/);
    expect(rows.map((row: string) => row.split(',')[0])).toEqual(ids);
    expect(rows[3]).toContain(',FAIL_IMMEDIATE,FAILED,FAILED,1,');
    expect(rows[3]).toContain(',SIMULATED_FAILURE,"');
  });

  it('takes the filters of the list', async () => {
    const { body } = await client.get('/reports', { outcomes: 'SUCCESS', work_kinds: 'RETRY_ON_FAIL' });
    expect(body.reports).toMatchObject([{ job_id: ids[2], attempt: 2 }]);
    expect(body.totals.jobs).toBe(1);
    const none = await client.get('/reports', { created_before: '2001-01-01T00:00:00Z', format: 'csv' });
    expect(none.body.trim().split('\r\n')).toHaveLength(1);
    const empty = await client.get('/reports', { states: 'RUNNING' });
    expect(empty.body).toEqual({ reports: [], totals: { jobs: 0, by_state: {}, by_outcome: {}, by_work_kind: {} } });
  });

  it.each([
    [{ format: 'csv', events: 'true' }, 400],
    [{ format: 'xml' }, 400],
    [{ events: 'yes' }, 400],
    [{ created_after: 'x' }, 400],
  ])('refuses %j', async (query, status) => {
    expect((await client.get('/reports', query)).status).toBe(status);
  });

  it('refuses an Accept header that it cannot serve', async () => {
    expect((await client.get('/reports', {}, { accept: 'application/pdf' })).status).toBe(406);
  });

  it('reports on more jobs than it reads at once, each of them once [FR-01.05]', async () => {
    const many = await server.client();
    const caller = { clientId: many.clientId, projectId: null, keyId: many.clientId, actor: 'api_key:test', requestId: 'many' };
    const request: ExecutionRequest = {
      type: 'DEFERRED',
      executionAt: new Date(FUTURE),
      ...{ workKind: null, callback: null, idempotencyKey: null },
    };
    const submitted = await Promise.all(Array.from({ length: 2_203 }, (_, seed) => submitExecution(server.context, caller, request, seed)));
    const response = await many.raw('GET', '/reports?events=true', undefined, {
      headers: { accept: 'application/x-ndjson' },
    });
    const rows = lines(await response.text());
    expect(rows).toHaveLength(2_203);
    expect(new Set(rows.map(({ job_id }) => job_id))).toEqual(new Set(submitted.map(({ jobId }) => jobId)));
    expect(rows.every(({ events }) => events.length === 1)).toBe(true);
    const { totals } = (await many.get('/reports')).body;
    expect(totals).toMatchObject({ jobs: 2_203, by_state: { CREATED: 2_203 }, by_outcome: {} });
  });

  it('breaks off when the caller does, and is ready for the next', async () => {
    const abort = new AbortController();
    const response = await fetch(`${server.url}/v1/reports?format=ndjson`, {
      headers: { authorization: `Bearer ${client.key}` },
      signal: abort.signal,
    });
    expect(response.status).toBe(200);
    abort.abort();
    await expect(response.text()).rejects.toThrow();
    expect((await client.get('/reports')).status).toBe(200);
  });
});
