import { describe, expect, it } from 'vitest';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import type { ReceiverMode } from '../../src/simulator/webhook-receiver.ts';
import { Gate } from '../library/fixture.ts';
import { until } from '../until.ts';
import { deliveriesOf, register, useDelivering } from './delivering-server.ts';
import { randomId, type TestClient } from './execution-fixture.ts';
import { StrictEndpoint } from './strict-endpoint.ts';

const server = useDelivering({ environment: { MILLRACE_WEBHOOKS_MAX_RETRIES: '1' } });

async function registered(client: TestClient, mode: ReceiverMode) {
  const label = randomId();
  return { label, webhookId: await register(client, server.receiver.url(mode, label), '*') };
}

const receivedBy = (label: string) => server.receiver.received().filter(({ path }) => path.split('?')[0]?.endsWith(`/${label}`));

const messagesOf = (label: string) => receivedBy(label).map(({ messageId }) => messageId);

async function tested(client: TestClient, webhookId: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) {
    ids.push((await client.post(`/webhooks/${webhookId}/test`)).body.delivery_id);
  }
  return ids;
}

const messageOf = (deliveryId: string) => `msg_${deliveryId.replaceAll('-', '')}`;

const stateOf = async (client: TestClient, webhookId: string, id: string) =>
  (await client.get(`/webhooks/${webhookId}/deliveries/${id}`)).body.state;

const enable = (client: TestClient, webhookId: string, enabled: boolean) => client.send('PATCH', `/webhooks/${webhookId}`, { enabled });

describe('deliveries again', () => {
  it('send one that was delivered with the same message id, once for many requests at once', async () => {
    const client = await server.client();
    const { webhookId, label } = await registered(client, 'ok');
    const [id] = (await tested(client, webhookId, 1)) as [string];
    await deliveriesOf(client, webhookId, 1);
    await enable(client, webhookId, false);
    const path = `/webhooks/${webhookId}/deliveries/${id}/redeliver`;
    const answers = await Promise.all(Array.from({ length: 5 }, () => client.post(path)));
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409, 409, 409]);
    expect(answers.find(({ status }) => status === 202)?.body).toEqual({ delivery_id: id });
    expect(await stateOf(client, webhookId, id)).toBe('queued');
    await enable(client, webhookId, true);
    const [again] = await deliveriesOf(client, webhookId, 1);
    expect(again).toMatchObject({ state: 'delivered', attempts: [{ n: 1 }, { n: 2, verdict: 'delivered' }] });
    expect(messagesOf(label)).toEqual([messageOf(id), messageOf(id)]);
  });

  it('go behind the deliveries that already wait', async () => {
    const client = await server.client();
    const { webhookId, label } = await registered(client, 'ok');
    const [first] = (await tested(client, webhookId, 1)) as [string];
    await deliveriesOf(client, webhookId, 1);
    const job = await client.submit();
    await client.reached(job, 'SUCCEEDED');
    await deliveriesOf(client, webhookId, 6);
    await enable(client, webhookId, false);
    await client.reached(await client.submit(), 'SUCCEEDED');
    await until('five deliveries are queued', async () => (await client.get(`/webhooks/${webhookId}`)).body.queued, 5);
    const before = receivedBy(label).length;
    expect((await client.post(`/webhooks/${webhookId}/deliveries/${first}/redeliver`)).status).toBe(202);
    await enable(client, webhookId, true);
    await server.receiver.until(() => receivedBy(label).length === before + 6);
    const told = receivedBy(label).slice(before);
    expect(told.map(({ body }) => JSON.parse(body).type)).toEqual([
      ...['job.created', 'job.queued', 'job.assigned', 'job.running', 'job.succeeded', 'webhook.test'],
    ]);
  });

  it('send everything that failed since a time, in the order of the events', async () => {
    const client = await server.client();
    const { webhookId, label } = await registered(client, '5xx');
    const [old] = (await tested(client, webhookId, 1)) as [string];
    const [gaveUp] = await deliveriesOf(client, webhookId, 1);
    const since = new Date(Date.parse((gaveUp as unknown as { ended_at: string }).ended_at) + 1).toISOString();
    await server.ledger.moveClock(2);
    const failed = await tested(client, webhookId, 4);
    await deliveriesOf(client, webhookId, 5);
    await client.send('PATCH', `/webhooks/${webhookId}`, { url: server.receiver.url('ok', `${label}-ok`) });
    const { status, body } = await client.post(`/webhooks/${webhookId}/redeliver`, { since });
    expect([status, body]).toEqual([202, { queued: 4 }]);
    await server.receiver.until(() => receivedBy(`${label}-ok`).length === 4);
    expect(messagesOf(`${label}-ok`)).toEqual(failed.map(messageOf));
    await until('the replayed delivery has arrived', () => stateOf(client, webhookId, failed.at(-1) as string), 'delivered');
    expect(await stateOf(client, webhookId, old)).toBe('failed');
    expect((await client.post(`/webhooks/${webhookId}/redeliver`, { since })).body).toEqual({ queued: 0 });
    expect((await client.get(`/webhooks/${webhookId}`)).body).toMatchObject({ consecutive_failures: 0, queued: 0 });
  });

  it.each([
    [{}, 'since'],
    [{ since: 'yesterday' }, 'since'],
    [{ since: '2024-01-15T10:30:00Z', state: 'queued' }, 'state'],
  ])('refuse %j', async (sent, field) => {
    const client = await server.client();
    const { webhookId } = await registered(client, 'ok');
    const { status, body } = await client.post(`/webhooks/${webhookId}/redeliver`, sent);
    expect([status, body.errors[0].field]).toEqual([400, field]);
  });
});

describe('a webhook that is disabled', () => {
  it('keeps events and sends them in order once it is enabled', async () => {
    const client = await server.client();
    const { webhookId, label } = await registered(client, 'ok');
    await enable(client, webhookId, false);
    const jobs = [await client.submit(), await client.submit()];
    for (const job of jobs) await client.reached(job, 'SUCCEEDED');
    await until('ten deliveries are queued', async () => (await client.get(`/webhooks/${webhookId}`)).body.queued, 10);
    expect(receivedBy(label)).toEqual([]);
    await enable(client, webhookId, true);
    await deliveriesOf(client, webhookId, 10);
    for (const job of jobs) {
      const told = receivedBy(label).map(({ body }) => JSON.parse(body).data);
      const report = (await client.report(job)).events.map(({ event_id }: { event_id: string }) => event_id);
      expect(told.filter(({ job_id }) => job_id === job).map(({ event_id }) => event_id)).toEqual(report);
    }
  });

  it('because it is gone says so, and takes events again when it is enabled', async () => {
    const client = await server.client();
    const { webhookId, label } = await registered(client, 'gone');
    const queued = async () => (await client.get(`/webhooks/${webhookId}`)).body.queued;
    // All five wait before the first of them is sent.
    await enable(client, webhookId, false);
    await client.reached(await client.submit(), 'SUCCEEDED');
    await until('five deliveries are queued', queued, 5);
    await enable(client, webhookId, true);
    await until('the webhook has been disabled', async () => !(await client.get(`/webhooks/${webhookId}`)).body.enabled);
    // The first was refused, and the news of that came.
    await until('five deliveries are queued again', queued, 5);
    expect((await client.get(`/webhooks/${webhookId}`)).body).toMatchObject({ disabled_reason: 'gone' });
    expect((await client.post(`/webhooks/${webhookId}/test`)).status).toBe(409);
    const url = server.receiver.url('ok', label);
    const { body } = await client.send('PATCH', `/webhooks/${webhookId}`, { url, enabled: true });
    expect(body).toMatchObject({ url, enabled: true, disabled_reason: null, consecutive_failures: 0 });
    await until('all events have been delivered', async () => (await client.get(`/webhooks/${webhookId}`)).body.totals.delivered, 5);
    expect(receivedBy(label).map(({ body: sent }) => JSON.parse(sent).type)).toContain('webhook.disabled');
  });
});

describe('a webhook that is deleted', () => {
  it('while a call is under way receives nothing more and leaves no rows behind', async () => {
    const client = await server.client();
    const endpoint = await StrictEndpoint.open();
    const webhookId = await register(client, endpoint.url('/'), '*');
    await tested(client, webhookId, 1);
    await deliveriesOf(client, webhookId, 1); // From here on the endpoint is verified.
    const before = endpoint.calls.length;
    const gate = new Gate();
    endpoint.hold = () => gate.pass();
    await tested(client, webhookId, 3);
    await gate.reached();
    expect((await client.send('DELETE', `/webhooks/${webhookId}`)).body).toEqual({ deleted: true });
    gate.open();
    const text = `SELECT count(*) FILTER (WHERE state IN ('queued', 'live'))::int4 AS open FROM millrace.webhook_deliveries
      WHERE webhook_id = $1`;
    await until('no delivery is open', async () => (await server.ledger.db.api.query(text, [webhookId])).rows[0].open, 0);
    const lane = 'SELECT live_delivery, due_at FROM millrace.webhook_lanes WHERE webhook_id = $1';
    const lanes = async () => (await server.ledger.db.api.query(lane, [webhookId])).rows;
    await until('its lane is empty', lanes, [{ live_delivery: null, due_at: null }]);
    expect(endpoint.calls).toHaveLength(before + 1);
  });

  it('and all that was done here leaves the ledger as it must be', async () => {
    expect(await checkInvariants(server.ledger.db.maintenance)).toEqual([]);
  });
});
