import { describe, expect, it } from 'vitest';
import { useDelivering } from './delivering-server.ts';
import { type Query, randomId, type TestClient } from './execution-fixture.ts';

const server = useDelivering();
const FUTURE = '2040-01-15T10:30:00Z';

const refused = async (client: TestClient, path: string, query: Query) => {
  const { status, body } = await client.get(path, query);
  expect([status, body.errors?.[0]?.field, body.errors?.[0]?.code]).toEqual([400, 'cursor', 'INVALID_CURSOR']);
};

const newWebhook = async (client: TestClient): Promise<string> =>
  (await client.post('/webhooks', { url: server.receiver.url('ok', randomId()), events: ['*'] })).body.webhook_id;

async function clientWithJobs(): Promise<TestClient> {
  const client = await server.client();
  for (let count = 0; count < 3; count++) await client.submit({ type: 'DEFERRED', execution_at: FUTURE, work_kind: 'SUCCESS_FAST' });
  return client;
}

const cursorOf = async (client: TestClient, path: string, query: Query = {}): Promise<string> => {
  const { body } = await client.get(path, { ...query, limit: '1' });
  expect(typeof body.next_cursor).toBe('string');
  return body.next_cursor;
};

describe('a cursor of GET /v1/jobs', () => {
  it('is good only for its client, its filters and its order [N35]', async () => {
    const client = await clientWithJobs();
    const query = { work_kinds: ['SUCCESS_FAST', 'FAIL_IMMEDIATE'] };
    const cursor = await cursorOf(client, '/jobs', query);
    expect((await client.get('/jobs', { work_kinds: 'FAIL_IMMEDIATE,SUCCESS_FAST', cursor })).body.jobs).toHaveLength(2);
    // The ledger looks for neither of several work kinds, so these two ask it the same question.
    await refused(client, '/jobs', { work_kinds: ['SUCCESS_FAST', 'SUCCESS_SLOW'], cursor });
    for (const other of [{}, { ...query, order: 'updated' }, { ...query, types: 'EXECUTE' }])
      await refused(client, '/jobs', { ...other, cursor });
    await refused(await clientWithJobs(), '/jobs', { ...query, cursor });
  });

  it('is refused where a list has one page only', async () => {
    const client = await clientWithJobs();
    const cursor = await cursorOf(client, '/jobs');
    const [first] = (await client.get('/jobs')).body.jobs;
    await refused(client, '/jobs', { ids: first.job_id, cursor });
    await refused(client, '/jobs', { states: 'CREATED', outcomes: 'SUCCESS', cursor });
  });
});

describe('a cursor of webhooks and of their deliveries', () => {
  it('is good only for its client, its filters and its list [N35]', async () => {
    const [client, stranger] = [await server.client(), await server.client()];
    for (const each of [client, client, stranger, stranger]) await newWebhook(each);
    const cursor = await cursorOf(client, '/webhooks');
    expect((await client.get('/webhooks', { cursor })).body.webhooks).toHaveLength(1);
    await refused(client, '/webhooks', { kind: 'all', cursor });
    await refused(stranger, '/webhooks', { cursor });
  });

  it('is good only for its webhook and its filters [N35]', async () => {
    const client = await server.client();
    const [one, other] = [await newWebhook(client), await newWebhook(client)];
    for (const id of [one, one, other, other]) await client.post(`/webhooks/${id}/test`);
    const cursor = await cursorOf(client, `/webhooks/${one}/deliveries`);
    expect((await client.get(`/webhooks/${one}/deliveries`, { cursor })).body.deliveries).toHaveLength(1);
    await refused(client, `/webhooks/${other}/deliveries`, { cursor });
    await refused(client, `/webhooks/${one}/deliveries`, { event: 'webhook.test', cursor });
    await refused(client, `/webhooks/${one}/deliveries`, { since: '2020-01-01T00:00:00Z', cursor });
    await refused(client, '/webhooks', { cursor });
  });
});
