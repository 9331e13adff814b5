import { describe, expect, it } from 'vitest';
import { randomId, type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const FUTURE = '2040-01-15T10:30:00Z';
const HOUR = 3_600_000;

async function jobsOf(client: TestClient): Promise<number> {
  const text = 'SELECT count(*)::int4 AS count FROM millrace.jobs WHERE org_id = $1';
  return (await server.ledger.db.api.query(text, [client.clientId])).rows[0].count;
}

describe('a repeated submission', () => {
  it('with the key in the body gives the same job and makes no second one [FR-07.14] [FR-07.15] [FR-14.48] [FR-14.49]', async () => {
    const client = await server.client();
    const request = { type: 'EXECUTE', work_kind: 'SUCCESS_FAST', idempotency_key: 'order-7' };
    const first = await client.post('/jobs', request);
    const second = await client.post('/jobs', request);
    expect(second).toMatchObject({
      status: 202,
      body: { job_id: first.body.job_id, created_at: first.body.created_at },
    });
    await client.reached(first.body.job_id, 'SUCCEEDED');
    const third = await client.post('/jobs', request);
    expect(third.body).toEqual({ ...first.body, state: 'SUCCEEDED' });
    expect(await jobsOf(client)).toBe(1);
  });

  it('with the key in the header does the same, and the body decides where both are given [FR-08.25] [FR-07.15]', async () => {
    const client = await server.client();
    const submit = async (header: string, key?: string) =>
      (await client.post('/jobs', { type: 'EXECUTE', idempotency_key: key }, { 'idempotency-key': header })).body.job_id;
    const first = await submit('one');
    expect(await submit('one')).toBe(first);
    expect(await submit('two', 'one')).toBe(first);
    expect(await submit('one', 'two')).not.toBe(first);
    expect(await jobsOf(client)).toBe(2);
  });

  it('gives the same job after its time too, and another content is a conflict then as before [FR-07.14] [FR-07.15] [FR-14.48]', async () => {
    const client = await server.client();
    const watching = client.at(await server.listen({ settings: { duplicateWindowMs: 2 * HOUR } }));
    const request = {
      type: 'DEFERRED',
      work_kind: 'SUCCESS_FAST',
      execution_at: new Date(Date.now() + HOUR).toISOString(),
    };
    const keyed = { ...request, idempotency_key: 'late' };
    const [first, unnamed] = [await client.submit(keyed), await watching.submit(request)];
    await server.ledger.moveClock(HOUR + 60_000);
    await client.reached(first, 'SUCCEEDED');
    const repeated = await client.post('/jobs', keyed);
    const other = await client.post('/jobs', { ...keyed, type: 'EMIT_EVENT' });
    const [again, unknown] = [await watching.post('/jobs', request), await client.post('/jobs', request)];
    await server.ledger.moveClock(-HOUR - 60_000);
    expect([repeated.status, repeated.body]).toMatchObject([202, { job_id: first, state: 'SUCCEEDED' }]);
    expect([other.status, other.body.code]).toEqual([409, 'RFA_EXEC_IDEMPOTENCY_CONFLICT']);
    expect([again.status, again.body.job_id]).toEqual([202, unnamed]);
    expect([unknown.status, unknown.body.errors]).toMatchObject([400, [{ code: 'IN_THE_PAST' }]]);
    expect(await jobsOf(client)).toBe(2);
  });

  it('with an empty header has no key, as where a client is made [FR-08.25]', async () => {
    const client = await server.client();
    const empty = { 'idempotency-key': '' };
    const submit = async (key?: string) =>
      (await client.post('/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST', idempotency_key: key }, empty)).body.job_id;
    const ids = [await submit(), await submit(), await submit('k'), await submit('k')];
    expect(new Set(ids).size).toBe(3);
    expect(ids[2]).toBe(ids[3]);
    const clients = [await server.nobody().post('/clients', {}, empty), await server.nobody().post('/clients', {}, empty)];
    expect(clients.map(({ status }) => status)).toEqual([201, 201]);
    expect(clients[0]?.body.client_id).not.toBe(clients[1]?.body.client_id);
  });

  it('of many at once makes one job [FR-14.49] [FR-07.14]', async () => {
    const client = await server.client();
    const request = { type: 'DEFERRED', execution_at: FUTURE, idempotency_key: randomId() };
    const answers = await Promise.all(Array.from({ length: 40 }, () => client.post('/jobs', request)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(new Set(answers.map(({ body }) => body.job_id)).size).toBe(1);
    expect(await jobsOf(client)).toBe(1);
  });

  it('counts for all types of one client, and for no other client [FR-07.15]', async () => {
    const [client, other] = [await server.client(), await server.client()];
    const id = await client.submit({ idempotency_key: 'same' });
    const conflict = await client.post('/jobs', { type: 'DEFERRED', execution_at: FUTURE, idempotency_key: 'same' });
    expect(conflict).toMatchObject({ status: 409, body: { code: 'RFA_EXEC_IDEMPOTENCY_CONFLICT' } });
    expect(conflict.body.detail).toContain(id);
    expect(conflict.body.errors).toEqual([
      { field: 'idempotency_key', code: 'DUPLICATE', message: expect.stringMatching(`^The .* job ${id}\\.$`) },
    ]);
    expect(await other.submit({ idempotency_key: 'same' })).not.toBe(id);
  });

  it.each([
    ['work_kind', { work_kind: 'SUCCESS_NORMAL' }],
    ['callback', { callback: 'https://example.com/' }],
    ['execution_at', { execution_at: '2041-01-01T00:00:00Z' }],
  ])('with another %s is a conflict and changes nothing', async (_, change) => {
    const client = await server.client();
    const request = { type: 'DEFERRED', execution_at: FUTURE, idempotency_key: 'k', work_kind: 'SUCCESS_FAST' };
    const first = await client.submit(request);
    expect((await client.post('/jobs', { ...request, ...change })).status).toBe(409);
    expect((await client.post('/jobs', { ...request, execution_at: '2040-01-15T10:30:00.000+00:00' })).body.job_id).toBe(first);
    expect(await jobsOf(client)).toBe(1);
  });

  it('without a key is a second job, unless the server has a window for repeats [FR-07.14] [FR-14.48]', async () => {
    const client = await server.client();
    const request = { type: 'DEFERRED', execution_at: FUTURE };
    expect(await client.submit(request)).not.toBe(await client.submit(request));
    const watching = client.at(await server.listen({ settings: { duplicateWindowMs: 60_000 } }));
    const first = await watching.submit(request);
    expect(await watching.submit(request)).toBe(first);
    expect(await watching.submit({ ...request, execution_at: '2041-01-01T00:00:00Z' })).not.toBe(first);
    expect(await jobsOf(client)).toBe(4);
    await server.ledger.moveClock(61_000);
    expect(await watching.submit(request)).not.toBe(first);
    await server.ledger.moveClock(-61_000);
  });
});

describe('a repeated action', () => {
  it('cancel answers whether the job is canceled, updates it, and does nothing the second time [FR-07.06] [FR-07.16] [FR-08.29] [FR-08.30] [FR-08.31]', async () => {
    const client = await server.client();
    const id = await client.submit({ type: 'DEFERRED', execution_at: FUTURE });
    const first = await client.post(`/jobs/${id}/cancel`);
    expect(first.status).toBe(200);
    expect(Object.keys(first.body)).toEqual(['job_id', 'state', 'updated_at']);
    expect(first.body).toMatchObject({ job_id: id, state: 'CANCELED' });
    const events = await client.path(id);
    expect(events).toEqual(['>CREATED:job.created', 'CREATED>CANCELED:job.canceled']);
    expect((await client.get(`/jobs/${id}`)).body.updated_at).toBe(first.body.updated_at);
    expect((await client.post(`/jobs/${id}/cancel`)).body).toEqual(first.body);
    expect(await client.path(id)).toEqual(events);
  });

  it('cancel of a job that has ended says so by its state [FR-07.06]', async () => {
    const client = await server.client();
    const id = await client.submit();
    const { updated_at } = await client.reached(id, 'SUCCEEDED');
    const { status, body } = await client.post(`/jobs/${id}/cancel`);
    expect({ status, body }).toEqual({ status: 200, body: { job_id: id, state: 'SUCCEEDED', updated_at } });
  });

  it('retry answers whether the job is retried, updates it, and does nothing the second time [FR-07.07] [FR-07.17] [FR-08.33] [FR-08.34] [FR-08.35]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'RETRY_ON_FAIL' });
    await client.reached(id, 'FAILED');
    const first = await client.post(`/jobs/${id}/retry`);
    expect(first.status).toBe(200);
    expect(Object.keys(first.body)).toEqual(['job_id', 'state', 'updated_at', 'attempt']);
    expect(first.body).toMatchObject({ job_id: id, state: 'QUEUED', attempt: 2 });
    await client.reached(id, 'SUCCEEDED');
    const events = await client.path(id);
    expect(events.filter((event) => event === 'FAILED>QUEUED:job.retried')).toHaveLength(1);
    const again = await client.post(`/jobs/${id}/retry`);
    expect(again).toMatchObject({ status: 200, body: { state: 'SUCCEEDED', attempt: 2 } });
    expect(await client.path(id)).toEqual(events);
  });

  it('retry of many at once is one retry [FR-07.17]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'RETRY_ON_FAIL' });
    await client.reached(id, 'FAILED');
    const answers = await Promise.all(Array.from({ length: 20 }, () => client.post(`/jobs/${id}/retry`)));
    expect(new Set(answers.map(({ status, body }) => `${status} ${body.attempt}`))).toEqual(new Set(['200 2']));
    await client.reached(id, 'SUCCEEDED');
    expect((await client.path(id)).filter((event) => event.endsWith('job.retried'))).toHaveLength(1);
  });
});
