import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Operation } from './contract.ts';
import { register, useWebhookApi } from './webhook-fixture.ts';

const server = useWebhookApi();

type Described = [address: string, scope: string, success: number, declared: number[]];

/** Every operation below /v1/webhooks, the scope of the key it needs, and the errors that the contract declares for it. */
const TABLE: Record<string, Described> = {
  registerWebhook: ['POST /v1/webhooks', 'jobs:write', 201, [400, 401, 403, 409, 500, 503]],
  listWebhooks: ['GET /v1/webhooks', 'jobs:read', 200, [400, 401, 403, 500, 503]],
  getWebhook: ['GET /v1/webhooks/{webhook_id}', 'jobs:read', 200, [401, 403, 404, 500, 503]],
  changeWebhook: ['PATCH /v1/webhooks/{webhook_id}', 'jobs:write', 200, [400, 401, 403, 404, 409, 500, 503]],
  deleteWebhook: ['DELETE /v1/webhooks/{webhook_id}', 'jobs:write', 200, [401, 403, 404, 409, 500, 503]],
  rotateWebhookSecret: [
    ...(['POST /v1/webhooks/{webhook_id}/secret/rotate', 'jobs:write', 200] as const),
    [400, 401, 403, 404, 409, 500, 503],
  ],
  rotateCallbackSecret: ['POST /v1/webhooks/callbacks/secret', 'jobs:write', 200, [400, 401, 403, 500, 503]],
  testWebhook: ['POST /v1/webhooks/{webhook_id}/test', 'jobs:write', 202, [401, 403, 404, 409, 500, 503]],
  listDeliveries: ['GET /v1/webhooks/{webhook_id}/deliveries', 'jobs:read', 200, [400, 401, 403, 404, 500, 503]],
  getDelivery: [...(['GET /v1/webhooks/{webhook_id}/deliveries/{delivery_id}', 'jobs:read', 200] as const), [401, 403, 404, 500, 503]],
  redeliver: [
    ...(['POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver', 'jobs:write', 202] as const),
    [401, 403, 404, 409, 500, 503],
  ],
  redeliverFailed: [...(['POST /v1/webhooks/{webhook_id}/redeliver', 'jobs:write', 202] as const), [400, 401, 403, 404, 500, 503]],
};

/** What any route may answer whatever it does: a wrong type, too much, too often, too late. */
const ALWAYS = [400, 406, 413, 415, 429, 504];

const BODIES: Record<string, object> = {
  registerWebhook: { url: 'https://public.example/other', events: ['*'] },
  changeWebhook: { description: 'changed' },
  redeliverFailed: { since: '2024-01-15T10:30:00Z' },
};

function operations(): Map<string, Operation & { address: string }> {
  const own = server.contract.operations.filter(({ path }) => path.includes('webhook'));
  return new Map(own.map(({ method, path, operation }) => [operation.operationId, { ...operation, address: `${method} ${path}` }]));
}

/** The operation on this webhook, as an address that can be asked. */
function requestOf(id: string, ids: { webhookId: string; deliveryId: string }) {
  const [address] = TABLE[id] as Described;
  const [method, path] = address.split(' ') as [string, string];
  const filled = path.replace('{webhook_id}', ids.webhookId).replace('{delivery_id}', ids.deliveryId);
  return { method, path: filled.replace('/v1', ''), body: BODIES[id] };
}

const ON_ONE = Object.keys(TABLE).filter((id) => TABLE[id]?.[0].includes('{webhook_id}'));

describe('the document of webhooks', () => {
  it('names every operation with its address, and no other', () => {
    expect([...operations()].map(([id, { address }]) => [id, address]).sort()).toEqual(
      Object.entries(TABLE)
        .map(([id, [address]]) => [id, address])
        .sort(),
    );
  });

  it.each(Object.entries(TABLE))(
    '%s needs the key it should and declares its answers [FR-08.61] [FR-08.65]',
    (id, [, scope, success, declared]) => {
      const operation = operations().get(id) as Operation;
      expect(operation.security).toEqual([{ bearer: [scope] }]);
      const statuses = Object.keys(operation.responses).map(Number);
      expect(statuses.filter((status) => status < 400)).toEqual([success]);
      expect(statuses).toEqual(expect.arrayContaining(declared));
      expect(statuses.filter((status) => status >= 400 && !ALWAYS.includes(status)).sort()).toEqual(
        declared.filter((status) => !ALWAYS.includes(status)).sort(),
      );
    },
  );
});

describe('whose webhook it is', () => {
  it.each(ON_ONE)('%s is refused to another client, to a key without the scope and to nobody [FR-08.65]', async (id) => {
    const [owner, other] = [await server.client(), await server.client()];
    const { webhook_id: webhookId } = await register(owner);
    const { delivery_id: deliveryId } = (await owner.post(`/webhooks/${webhookId}/test`)).body;
    const before = (await owner.get(`/webhooks/${webhookId}`)).body;
    const { method, path, body } = requestOf(id, { webhookId, deliveryId });
    const answers = [
      [other, 403, 'RFA_AUTH_FORBIDDEN'],
      [await owner.with('jobs:cancel'), 403, 'RFA_AUTH_FORBIDDEN'],
      [server.nobody(), 401, 'RFA_AUTH_INVALID_CREDENTIALS'],
      [other.at(await server.listen({ settings: { hideForeignJobs: true } })), 404, 'RFA_WEBHOOK_NOT_FOUND'],
    ] as const;
    for (const [client, status, code] of answers) {
      const refused = await client.send(method, path, body);
      expect([refused.status, refused.body.code]).toEqual([status, code]);
      expect(JSON.stringify(refused.body)).not.toContain(owner.clientId);
    }
    expect((await owner.get(`/webhooks/${webhookId}`)).body).toEqual(before);
    const refusals = server.logs.filter((line) => line.message === 'access refused' && line.webhook_id === webhookId);
    expect(refusals).toEqual([expect.objectContaining({ client_id: other.clientId })]);
  });

  it.each(ON_ONE)('%s answers 404 for an unknown webhook and for an invalid id [FR-08.65]', async (id) => {
    const client = await server.client();
    for (const webhookId of [randomUUID(), 'nothing']) {
      const { method, path, body } = requestOf(id, { webhookId, deliveryId: randomUUID() });
      const { status, body: said } = await client.send(method, path, body);
      expect([status, said.code]).toEqual([404, 'RFA_WEBHOOK_NOT_FOUND']);
    }
  });

  it.each(['registerWebhook', 'listWebhooks', 'rotateCallbackSecret'])('%s needs a key with its scope [FR-08.61]', async (id) => {
    const owner = await server.client();
    const { method, path, body } = requestOf(id, { webhookId: '', deliveryId: '' });
    expect((await server.nobody().send(method, path, body)).status).toBe(401);
    expect((await (await owner.with('jobs:cancel')).send(method, path, body)).status).toBe(403);
  });

  it('is in no list of another client', async () => {
    const [owner, other] = [await server.client(), await server.client()];
    await register(owner);
    expect((await other.get('/webhooks', { kind: 'all' })).body).toEqual({ webhooks: [], next_cursor: null });
  });

  it('also holds for a delivery: that of another webhook is not found', async () => {
    const client = await server.client();
    const [one, two] = [await register(client), await register(client)];
    const { delivery_id } = (await client.post(`/webhooks/${one.webhook_id}/test`)).body;
    const path = `/webhooks/${two.webhook_id}/deliveries/${delivery_id}`;
    expect((await client.get(path)).status).toBe(404);
    expect((await client.post(`${path}/redeliver`)).status).toBe(404);
  });
});
