import { describe, expect, it } from 'vitest';
import { type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();

const forget = (client: TestClient, which = '') =>
  server.ledger.db.api.query(`DELETE FROM millrace.records WHERE org_id = $1 ${which}`, [client.clientId]);

describe('a job whose history is gone', () => {
  it('is still there and can be acted on, but has no report [FR-15.10] [FR-15.14]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'RETRY_ON_FAIL' });
    await client.reached(id, 'FAILED');
    await forget(client);
    expect(await client.get(`/jobs/${id}`)).toMatchObject({
      status: 200,
      body: { state: 'FAILED', outcome: 'FAILED' },
    });
    const missing = await client.get(`/jobs/${id}/report`);
    expect(missing).toMatchObject({ status: 404, body: { code: 'RFA_JOB_NOT_FOUND' } });
    expect((await client.get('/jobs')).body.jobs).toMatchObject([{ job_id: id, outcome: 'FAILED' }]);
    const rows = (await client.get('/reports', { events: 'true' })).body.reports;
    expect(rows).toMatchObject([{ job_id: id, outcome: 'FAILED', events: [] }]);
    expect((await client.post(`/jobs/${id}/retry`)).body).toMatchObject({ state: 'QUEUED', attempt: 2 });
    expect(await client.reached(id, 'SUCCEEDED')).toMatchObject({ outcome: 'SUCCESS' });
  });

  it('in its oldest part tells the rest [FR-15.10]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'RETRY_ON_FAIL' });
    await client.reached(id, 'FAILED');
    await forget(client);
    await client.post(`/jobs/${id}/retry`);
    await client.reached(id, 'SUCCEEDED');
    const path = await client.path(id);
    expect(path.at(0)).toBe('FAILED>QUEUED:job.retried');
    expect(path.at(-1)).toBe('RUNNING>SUCCEEDED:job.succeeded');
  });

  it('in its newest part has no report either [FR-15.14]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'FAIL_IMMEDIATE' });
    await client.reached(id, 'FAILED');
    await forget(client, 'AND id = (SELECT max(id) FROM millrace.records WHERE org_id = $1)');
    expect((await client.get(`/jobs/${id}/report`)).status).toBe(404);
    expect((await client.get(`/jobs/${id}`)).status).toBe(200);
  });
});

describe('a job whose definition is gone', () => {
  it('is still shown, without one', async () => {
    const client = await server.client();
    const id = await client.submit({
      type: 'DEFERRED',
      execution_at: '2040-01-01T00:00:00Z',
      work_kind: 'SUCCESS_FAST',
    });
    const text = `UPDATE millrace.jobs SET payload = '{}' WHERE org_id = $1 AND id = $2`;
    await server.ledger.db.api.query(text, [client.clientId, id]);
    const { status, body } = await client.get(`/jobs/${id}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ type: 'DEFERRED', definition: null, execution_at: null });
    await client.post(`/jobs/${id}/cancel`);
    expect((await client.report(id)).events.at(-1)).toMatchObject({ scenario: 'SUCCESS_FAST' });
    expect((await client.get('/reports')).body.reports).toMatchObject([{ work_kind: null, state: 'CANCELED' }]);
  });
});
