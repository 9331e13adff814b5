import { describe, expect, it } from 'vitest';
import { verifyWebhook } from '../../src/client/index.ts';
import { until } from '../until.ts';
import { deliveriesOf, register, useDelivering } from './delivering-server.ts';
import { randomId, type TestClient } from './execution-fixture.ts';

const MAX_RETRIES = 2;
const server = useDelivering({ environment: { MILLRACE_WEBHOOKS_MAX_RETRIES: String(MAX_RETRIES) } });

type Registered = { webhook_id: string; secret: string; label: string };

async function registered(client: TestClient, ...[mode, given]: [mode: 'ok' | '5xx' | '5xx-then-ok', given?: object]) {
  const label = randomId();
  const url = server.receiver.url(mode, label);
  const { body } = await client.post('/webhooks', { url, events: ['*'], ...given });
  return { ...body, label } as Registered;
}

const receivedBy = (label: string) => server.receiver.received().filter(({ path }) => path.endsWith(`/${label}`));

/** Sends so many test events one after the other. Answers their ids, oldest first. */
async function tested(client: TestClient, webhookId: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) {
    ids.push((await client.post(`/webhooks/${webhookId}/test`)).body.delivery_id);
  }
  return ids;
}

describe('POST /v1/webhooks/{webhook_id}/test', () => {
  it('sends a signed event that the webhook need not have asked for, and shows it as it was sent', async () => {
    const client = await server.client();
    const { webhook_id, secret, label } = await registered(client, 'ok', { events: ['job.failed'] });
    const { status, body } = await client.post(`/webhooks/${webhook_id}/test`);
    expect(status).toBe(202);
    await deliveriesOf(client, webhook_id, 1);
    const [received] = receivedBy(label);
    const path = `/webhooks/${webhook_id}/deliveries/${body.delivery_id}`;
    const shown = (await client.get(path)).body;
    expect(shown).toMatchObject({
      ...{ delivery_id: body.delivery_id, message_id: received?.headers['webhook-id'], body: received?.body },
      ...{ event: 'webhook.test', job_id: null, state: 'delivered' },
      attempts: [{ n: 1, verdict: 'delivered', status: 200, error_code: null, answer: null }],
    });
    const told = await verifyWebhook({ ...received!, secret });
    expect(told).toMatchObject({ type: 'webhook.test', data: { webhook_id } });
    const { body: _, ...listed } = shown;
    expect((await client.get(`/webhooks/${webhook_id}/deliveries`)).body.deliveries).toEqual([listed]);
    expect((await client.get(`/webhooks/${webhook_id}`)).body).toMatchObject({
      ...{ queued: 0, consecutive_failures: 0, last_delivery_at: shown.ended_at },
      totals: { delivered: 1, attempts: 1, failures: 0 },
    });
  });
});

describe('GET /v1/webhooks/{webhook_id}/deliveries', () => {
  it('shows each attempt of a delivery that succeeds late and of one that never does [FR-14.58] [FR-14.59]', async () => {
    const client = await server.client();
    const late = await registered(client, '5xx-then-ok');
    const never = await registered(client, '5xx');
    for (const { webhook_id } of [late, never]) await tested(client, webhook_id, 1);
    const [delivered] = await deliveriesOf(client, late.webhook_id, 1);
    const [failed] = await deliveriesOf(client, never.webhook_id, 1);
    expect(delivered).toMatchObject({
      state: 'delivered',
      attempts: [
        { n: 1, verdict: 'retry', status: 500 },
        { n: 2, verdict: 'delivered', status: 200 },
      ],
    });
    expect(failed?.state).toBe('failed');
    expect(failed?.attempts.map(({ status }) => status)).toEqual(Array.from({ length: MAX_RETRIES + 1 }, () => 500));
    const { body } = await client.get(`/webhooks/${never.webhook_id}`);
    expect(body).toMatchObject({
      ...{ enabled: true, consecutive_failures: MAX_RETRIES + 1, last_delivery_at: null },
      totals: { delivered: 0, attempts: MAX_RETRIES + 1, failures: MAX_RETRIES + 1 },
    });
    expect(body.failing_since).not.toBeNull();
  });

  it('filters by state, event and time', async () => {
    const client = await server.client();
    const { webhook_id } = await registered(client, 'ok', { events: ['job.created', 'job.succeeded'] });
    const jobId = await client.submit();
    await deliveriesOf(client, webhook_id, 2);
    await tested(client, webhook_id, 1);
    const [test] = await deliveriesOf(client, webhook_id, 3);
    const listed = async (query: Record<string, string>) =>
      (await client.get(`/webhooks/${webhook_id}/deliveries`, query)).body.deliveries.map(({ event }: { event: string }) => event);
    expect((await listed({})).sort()).toEqual(['job.created', 'job.succeeded', 'webhook.test']);
    expect(await listed({ event: 'job.created' })).toEqual(['job.created']);
    expect(await listed({ state: 'failed' })).toEqual([]);
    expect(await listed({ state: 'delivered', event: 'webhook.test' })).toEqual(['webhook.test']);
    const { created_at } = test as unknown as { created_at: string };
    expect(await listed({ since: created_at })).toEqual(['webhook.test']);
    expect(await listed({ since: '2090-01-01T00:00:00Z' })).toEqual([]);
    const { deliveries } = (await client.get(`/webhooks/${webhook_id}/deliveries`, { event: 'job.succeeded' })).body;
    expect(deliveries).toMatchObject([{ job_id: jobId }]);
  });

  it.each([
    ['state', 'live'],
    ['event', 'job.nothing'],
    ['since', 'yesterday'],
    ['limit', '201'],
    ['cursor', 'x'],
  ])('refuses %s=%s', async (name, value) => {
    const client = await server.client();
    const { webhook_id } = await registered(client, 'ok');
    const { status, body } = await client.get(`/webhooks/${webhook_id}/deliveries`, { [name]: value });
    expect([status, body.errors[0].field]).toEqual([400, name]);
  });

  it('gives pages on which each delivery is once although others come meanwhile', async () => {
    const client = await server.client();
    const { webhook_id } = await registered(client, 'ok');
    const sent = await tested(client, webhook_id, 7);
    const ids: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query: Record<string, string> = cursor === '' ? { limit: '3' } : { limit: '3', cursor };
      const { deliveries, next_cursor } = (await client.get(`/webhooks/${webhook_id}/deliveries`, query)).body;
      ids.push(...deliveries.map(({ delivery_id }: { delivery_id: string }) => delivery_id));
      cursor = next_cursor;
      await tested(client, webhook_id, 1);
    }
    expect(ids).toEqual(sent.reverse());
  });
});

describe('secrets that are replaced', () => {
  it('both sign until the overlap ends', async () => {
    const client = await server.client();
    const { webhook_id, secret, label } = await registered(client, 'ok');
    const path = `/webhooks/${webhook_id}/secret/rotate`;
    const { secret: second } = (await client.post(path, { overlap: '1h' })).body;
    await tested(client, webhook_id, 1);
    await deliveriesOf(client, webhook_id, 1);
    const [both] = receivedBy(label);
    for (const each of [secret, second]) await verifyWebhook({ ...both!, secret: each });
    const { secret: third } = (await client.post(path, { overlap: 0 })).body;
    await tested(client, webhook_id, 1);
    await deliveriesOf(client, webhook_id, 2);
    const last = receivedBy(label).at(-1);
    await verifyWebhook({ ...last!, secret: third });
    for (const each of [secret, second]) {
      await expect(verifyWebhook({ ...last!, secret: each })).rejects.toMatchObject({ code: 'NO_MATCH' });
    }
  });
});

describe('callbacks', () => {
  it('are targets that can be read and disabled, but not changed or deleted', async () => {
    const client = await server.client();
    const url = server.receiver.url('ok', randomId());
    await client.reached(await client.submit({ callback: url }), 'SUCCEEDED');
    await register(client, server.receiver.url('ok', randomId()), 'job.failed');
    const listed = async (kind: string) => (await client.get('/webhooks', { kind })).body.webhooks;
    await until(
      'the callback is listed',
      async () => (await listed('callback')).length,
      (count) => count > 0,
    );
    expect(await listed('callback')).toMatchObject([{ kind: 'callback', url, events: [] }]);
    const [{ webhook_id }] = await listed('callback');
    expect(await listed('webhook')).toHaveLength(1);
    expect(await listed('all')).toHaveLength(2);
    const path = `/webhooks/${webhook_id}`;
    for (const [method, below, sent] of [
      ['PATCH', '', { url: server.receiver.url('ok') }],
      ['PATCH', '', { enabled: false, events: ['*'] }],
      ['DELETE', '', undefined],
      ['POST', '/secret/rotate', {}],
    ] as const) {
      const { status, body } = await client.send(method, path + below, sent);
      expect([status, body.code]).toEqual([409, 'RFA_WEBHOOK_CONFLICT']);
    }
    const disabled = await client.send('PATCH', path, { enabled: false });
    expect(disabled.body).toMatchObject({ kind: 'callback', enabled: false, disabled_reason: 'manual' });
  });
});
