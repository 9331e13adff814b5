import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const FUTURE = '2040-01-15T10:30:00Z';

async function everyAction(client: TestClient, id: string) {
  return [
    await client.get(`/jobs/${id}`),
    await client.get(`/jobs/${id}/report`),
    await client.post(`/jobs/${id}/cancel`),
    await client.post(`/jobs/${id}/retry`),
  ];
}

describe("another client's job", () => {
  it('is refused whatever is asked of it, and stays as it was [FR-13.04] [FR-13.05] [FR-14.10] [FR-08.48] [FR-08.57]', async () => {
    const [owner, other] = [await server.client(), await server.client()];
    const waiting = await owner.submit({ type: 'DEFERRED', execution_at: FUTURE });
    const failed = await owner.submit({ work_kind: 'FAIL_IMMEDIATE' });
    await owner.reached(failed, 'FAILED');
    for (const id of [waiting, failed]) {
      const before = (await owner.get(`/jobs/${id}`)).body;
      const row = await server.ledger.rowOf({ orgId: owner.clientId, id });
      for (const { status, body } of await everyAction(other, id)) {
        expect(status).toBe(403);
        expect(body.code).toBe('RFA_AUTH_FORBIDDEN');
        expect(JSON.stringify(body)).not.toContain(owner.clientId);
        expect(JSON.stringify(body)).not.toMatch(/FAILED|CREATED|work_kind/);
      }
      expect((await owner.get(`/jobs/${id}`)).body).toEqual(before);
      expect(await server.ledger.rowOf({ orgId: owner.clientId, id })).toEqual(row);
      const refusals = server.logs.filter((line) => line.message === 'access refused' && line.job_id === id);
      expect(refusals).toHaveLength(4);
      expect(refusals[0]).toMatchObject({ client_id: other.clientId, reason: expect.any(String) });
    }
  });

  it('is in no list and in no report, even when asked for by id [FR-13.04]', async () => {
    const [owner, other] = [await server.client(), await server.client()];
    const id = await owner.submit();
    const own = await other.submit();
    await owner.reached(id, 'SUCCEEDED');
    expect((await other.get('/jobs')).body.jobs).toMatchObject([{ job_id: own }]);
    expect((await other.get('/jobs', { ids: `${id},${own}` })).body.jobs).toMatchObject([{ job_id: own }]);
    expect((await other.get('/reports')).body.reports).toMatchObject([{ job_id: own }]);
    expect((await other.get('/reports', { format: 'ndjson' })).body).not.toContain(id);
    expect((await owner.get('/jobs')).body.jobs).toMatchObject([{ job_id: id }]);
  });

  it('does not give its key to anybody [FR-13.04]', async () => {
    const [owner, other] = [await server.client(), await server.client()];
    const request = { type: 'EXECUTE', idempotency_key: 'shared' };
    const [first, second] = [await owner.post('/jobs', request), await other.post('/jobs', request)];
    expect(second.body.job_id).not.toBe(first.body.job_id);
  });

  it('is as absent as one that never was where the server is set to hide it [FR-14.10] [FR-13.04]', async () => {
    const url = await server.listen({ settings: { hideForeignJobs: true } });
    const owner = await server.client();
    const other = (await server.client()).at(url);
    const id = await owner.submit({ type: 'DEFERRED', execution_at: FUTURE });
    const absent = randomUUID();
    const strip = ({ status, body }: { status: number; body: Record<string, unknown> }, jobId: string) => ({
      status,
      body: JSON.parse(JSON.stringify({ ...body, instance: '' }).replaceAll(jobId, 'ID')),
    });
    const foreign = (await everyAction(other, id)).map((answer) => strip(answer, id));
    const none = (await everyAction(other, absent)).map((answer) => strip(answer, absent));
    expect(foreign).toEqual(none);
    expect(foreign[0]).toMatchObject({ status: 404, body: { code: 'RFA_JOB_NOT_FOUND' } });
    expect(await owner.state(id)).toBe('CREATED');
  });

  it('of another API is absent, not forbidden: this one knows nothing of it', async () => {
    const job = await server.ledger.submitOne();
    expect((await (await server.client()).get(`/jobs/${job.id}`)).status).toBe(404);
  });
});
