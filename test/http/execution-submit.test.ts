import { describe, expect, it } from 'vitest';
import { EXECUTION_TYPES, KINDS, WORK_KINDS } from '../../src/core/execution/kinds.ts';
import { useExecution } from './execution-fixture.ts';

const server = useExecution();
const FUTURE = '2040-01-15T10:30:00Z';

const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

describe('POST /v1/jobs', () => {
  it('answers 202 with the id, the state and the time of the job [FR-01.01] [FR-05.03] [FR-07.04] [FR-08.21] [FR-08.26] [FR-08.27]', async () => {
    const client = await server.client();
    const { status, body } = await client.post('/jobs', { type: 'EXECUTE' });
    expect(status).toBe(202);
    expect(Object.keys(body)).toEqual(['job_id', 'state', 'created_at']);
    expect(body.job_id).toMatch(UUID);
    expect(body.state).toBe('QUEUED');
    expect(body.created_at).toMatch(TIMESTAMP);
  });

  it('keeps the job, which is there under its id from then on [FR-05.01] [FR-07.05] [FR-15.04]', async () => {
    const client = await server.client();
    const accepted = (await client.post('/jobs', { type: 'DEFERRED', execution_at: FUTURE })).body;
    const { status, body } = await client.get(`/jobs/${accepted.job_id}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ job_id: accepted.job_id, state: 'CREATED', created_at: accepted.created_at });
    const { rows } = await server.ledger.db.api.query('SELECT id FROM millrace.jobs WHERE org_id = $1', [client.clientId]);
    expect(rows).toEqual([{ id: accepted.job_id }]);
  });

  it('learns the outcome of its job by polling it [FR-01.02] [FR-02.01] [FR-05.01]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'SUCCESS_FAST' });
    expect(await client.reached(id, 'SUCCEEDED')).toMatchObject({ outcome: 'SUCCESS' });
    expect((await client.get(`/jobs/${id}/report`)).body).toMatchObject({ job_id: id, outcome: 'SUCCESS' });
    const failing = await client.submit({ work_kind: 'FAIL_IMMEDIATE' });
    expect(await client.reached(failing, 'FAILED')).toMatchObject({ outcome: 'FAILED' });
    expect((await client.get(`/jobs/${failing}/report`)).body).toMatchObject({ outcome: 'FAILED' });
  });

  it.each(EXECUTION_TYPES)('takes the type %s and keeps it [FR-05.02] [FR-07.01] [FR-08.22]', async (type) => {
    const client = await server.client();
    const time = type === 'DEFERRED' ? { execution_at: FUTURE } : {};
    const { status, body } = await client.post('/jobs', { type, ...time });
    expect(status).toBe(202);
    expect((await client.get(`/jobs/${body.job_id}`)).body).toMatchObject({ type, definition: { type } });
  });

  it('runs at once without a time and waits for a time that is given [FR-05.02] [FR-07.02] [FR-10.02]', async () => {
    const client = await server.client();
    const now = await client.post('/jobs', { type: 'EMIT_EVENT', work_kind: 'PAYLOAD_SMALL' });
    const later = await client.post('/jobs', { type: 'EMIT_EVENT', work_kind: 'PAYLOAD_SMALL', execution_at: FUTURE });
    expect([now.body.state, later.body.state]).toEqual(['QUEUED', 'CREATED']);
    await client.reached(now.body.job_id, 'SUCCEEDED');
    expect(await client.get(`/jobs/${later.body.job_id}`)).toMatchObject({
      body: { state: 'CREATED', execution_at: '2040-01-15T10:30:00.000Z' },
    });
  });

  it.each(['2040-01-15T10:30:00Z', '2040-01-15T10:30Z', '2040-01-15T10:30:00.000+00:00', '2040-01-15 10:30:00z'])(
    'reads the time %s as ISO 8601 in UTC [FR-08.23] [FR-10.01]',
    async (text) => {
      const client = await server.client();
      const id = await client.submit({ type: 'DEFERRED', execution_at: text });
      expect((await client.get(`/jobs/${id}`)).body.execution_at).toBe('2040-01-15T10:30:00.000Z');
    },
  );

  it.each(['https://example.com/hook', 'http://example.com:8080/hook?a=b'])(
    'takes the callback %s and keeps it [FR-07.03] [FR-08.24]',
    async (callback) => {
      const client = await server.client();
      const id = await client.submit({ type: 'DEFERRED', execution_at: FUTURE, callback });
      expect((await client.get(`/jobs/${id}`)).body.callback).toBe(callback);
      const without = await client.submit({ type: 'DEFERRED', execution_at: FUTURE, callback: null });
      expect((await client.get(`/jobs/${without}`)).body.callback).toBeNull();
    },
  );

  it('generates the definition from the time of the request, within the time it took', async () => {
    const client = await server.client();
    const before = Date.now();
    const id = await client.submit({ type: 'DEFERRED', execution_at: FUTURE, work_kind: null });
    const after = Date.now();
    const { definition } = (await client.get(`/jobs/${id}`)).body;
    expect(definition.seed).toBeGreaterThanOrEqual(before);
    expect(definition.seed).toBeLessThanOrEqual(after);
    expect(WORK_KINDS).toContain(definition.work_kind);
    expect(definition.should_fail).toBe(KINDS[definition.work_kind as keyof typeof KINDS].shouldFail);
  });

  it('counts submissions and logs each change with what the job is to do', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'SUCCESS_FAST' });
    const lines = server.logs.filter((line) => line.job_id === id && line.action === 'submit');
    expect(lines).toContainEqual(
      expect.objectContaining({
        ...{ client_id: client.clientId, current_state: 'CREATED', next_state: 'QUEUED', scenario: 'SUCCESS_FAST' },
        ...{ duration_ms: 1_000, expected_outcome: 'SUCCEEDED' },
      }),
    );
    const spans = server.spans.filter(({ name, attributes }) => name === 'submit' && attributes?.job_id === id);
    expect(spans).toHaveLength(1);
    const enqueue = server.spans.find(({ name, parentId }) => name === 'enqueue' && parentId === spans[0]?.spanId);
    expect(enqueue?.traceId).toBe(spans[0]?.traceId);
  });
});
