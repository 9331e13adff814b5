import { randomUUID } from 'node:crypto';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { TestClient } from './execution-fixture.ts';
import { deliveriesOf, PUBLIC_URL, register, secretBytes, useWebhookApi } from './webhook-fixture.ts';

const server = useWebhookApi();

const idsOf = (webhooks: { webhook_id: string }[]) => webhooks.map(({ webhook_id }) => webhook_id);

const secretsOf = async (webhookId: string): Promise<{ secret: Buffer; ends: boolean }[]> => {
  const text = `SELECT secret, expires_at IS NOT NULL AS ends FROM millrace.webhook_secrets WHERE webhook_id = $1 ORDER BY n`;
  return (await server.ledger.db.api.query(text, [webhookId])).rows;
};

async function pages(client: TestClient, onPage: () => Promise<unknown>): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor: string | null = null; ; ) {
    const { body } = await client.get('/webhooks', { limit: '2', ...(cursor === null ? {} : { cursor }) });
    ids.push(...idsOf(body.webhooks));
    cursor = body.next_cursor;
    if (cursor === null) return ids;
    await onPage();
  }
}

describe('GET /v1/webhooks', () => {
  it('lists the webhooks of the client, newest first, each once although others come meanwhile', async () => {
    const client = await server.client();
    const made: string[] = [];
    for (let count = 0; count < 7; count++) made.unshift((await register(client)).webhook_id);
    expect(idsOf((await client.get('/webhooks')).body.webhooks)).toEqual(made);
    expect(await pages(client, () => register(client))).toEqual(made);
  });

  it('refuses cursors and limits that make no sense', async () => {
    const client = await server.client();
    for (const cursor of ['x', Buffer.from('[1,"DELIVERIES",1,"x"]').toString('base64url')]) {
      const { status, body } = await client.get('/webhooks', { cursor });
      expect([status, body.errors[0].field]).toEqual([400, 'cursor']);
    }
    for (const limit of ['0', '101', 'many']) expect((await client.get('/webhooks', { limit })).status).toBe(400);
    expect((await client.get('/webhooks', { kind: 'other' })).status).toBe(400);
  });
});

describe('PATCH /v1/webhooks/{webhook_id}', () => {
  it('changes what is given and leaves the rest', async () => {
    const client = await server.client();
    const { webhook_id } = await register(client, { url: PUBLIC_URL, events: ['job.created'], description: 'first' });
    const before = (await client.get(`/webhooks/${webhook_id}`)).body;
    await server.ledger.moveClock(60_000);
    onTestFinished(() => server.ledger.moveClock(-60_000));
    const changed = await client.send('PATCH', `/webhooks/${webhook_id}`, {
      events: ['job.failed'],
      description: null,
    });
    expect(changed.status).toBe(200);
    const { updated_at } = changed.body;
    expect(changed.body).toEqual({ ...before, events: ['job.failed'], description: null, updated_at });
    expect(updated_at > before.updated_at).toBe(true);
    const moved = await client.send('PATCH', `/webhooks/${webhook_id}`, { url: 'https://public.example/new' });
    expect(moved.body).toMatchObject({ url: 'https://public.example/new', events: ['job.failed'] });
    expect((await client.send('PATCH', `/webhooks/${webhook_id}`, {})).body).toMatchObject({ events: ['job.failed'] });
  });

  it('disables and enables, and hints that there is work', async () => {
    const client = await server.client();
    const { webhook_id } = await register(client);
    const disabled = await client.send('PATCH', `/webhooks/${webhook_id}`, { enabled: false });
    expect(disabled.body).toMatchObject({ enabled: false, disabled_reason: 'manual' });
    expect(disabled.body.disabled_at).not.toBeNull();
    const refused = await client.post(`/webhooks/${webhook_id}/test`);
    expect([refused.status, refused.body.code]).toEqual([409, 'RFA_WEBHOOK_CONFLICT']);
    const { hints } = server;
    const enabled = await client.send('PATCH', `/webhooks/${webhook_id}`, { enabled: true });
    expect(enabled.body).toMatchObject({ enabled: true, disabled_at: null, disabled_reason: null });
    expect(server.hints).toBeGreaterThan(hints);
  });

  it.each([
    [{ url: 'http://10.0.0.1/' }, 400, 'url'],
    [{ url: 'https://inside.example/' }, 400, 'url'],
    [{ events: [] }, 400, 'events'],
    [{ events: ['job.creatd'] }, 400, 'events[0]'],
    [{ enabled: 'yes' }, 400, 'enabled'],
    [{ kind: 'callback' }, 400, 'kind'],
  ])('refuses %j and changes nothing', async (change, status, field) => {
    const client = await server.client();
    const { webhook_id } = await register(client);
    const before = (await client.get(`/webhooks/${webhook_id}`)).body;
    const refused = await client.send('PATCH', `/webhooks/${webhook_id}`, change);
    expect([refused.status, refused.body.errors[0].field]).toEqual([status, field]);
    expect((await client.get(`/webhooks/${webhook_id}`)).body).toEqual(before);
  });

  it('refuses to become what another webhook is', async () => {
    const client = await server.client();
    await register(client, { url: PUBLIC_URL, events: ['job.created'] });
    const { webhook_id } = await register(client, { url: PUBLIC_URL, events: ['job.failed'] });
    const { status, body } = await client.send('PATCH', `/webhooks/${webhook_id}`, { events: ['job.created'] });
    expect([status, body.code]).toEqual([409, 'RFA_WEBHOOK_CONFLICT']);
    expect((await client.get(`/webhooks/${webhook_id}`)).body.events).toEqual(['job.failed']);
  });
});

describe('DELETE /v1/webhooks/{webhook_id}', () => {
  it('answers 200 with deleted, and then there is no such webhook [FR-08.62] [FR-08.63] [FR-08.64] [FR-08.65]', async () => {
    const client = await server.client();
    const { webhook_id } = await register(client);
    await client.post(`/webhooks/${webhook_id}/test`);
    const deleted = await client.send('DELETE', `/webhooks/${webhook_id}`);
    expect([deleted.status, deleted.body]).toEqual([200, { deleted: true }]);
    for (const [method, path] of [
      ...[['DELETE', ''] as const, ['GET', ''] as const, ['GET', '/deliveries'] as const],
      ...[['POST', '/test'] as const, ['POST', '/secret/rotate'] as const],
    ]) {
      const { status, body } = await client.send(method, `/webhooks/${webhook_id}${path}`);
      expect([method, path, status, body.code]).toEqual([method, path, 404, 'RFA_WEBHOOK_NOT_FOUND']);
    }
    expect((await client.get('/webhooks', { kind: 'all' })).body.webhooks).toEqual([]);
    const text = 'SELECT count(*)::int4 AS count FROM millrace.webhook_deliveries WHERE webhook_id = $1';
    expect((await server.ledger.db.api.query(text, [webhook_id])).rows).toEqual([{ count: 0 }]);
  });

  it('is done once by many at once [FR-08.65]', async () => {
    const client = await server.client();
    const { webhook_id } = await register(client);
    const answers = await Promise.all(Array.from({ length: 5 }, () => client.send('DELETE', `/webhooks/${webhook_id}`)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404, 404]);
  });

  it.each([randomUUID(), 'nothing', 'x'.repeat(90)])('knows no webhook %s [FR-08.65]', async (id) => {
    expect((await (await server.client()).send('DELETE', `/webhooks/${id}`)).status).toBe(404);
  });
});

describe('secrets', () => {
  it('are two at most: the one before ends after the overlap, older ones at once', async () => {
    const client = await server.client();
    const first = await register(client);
    const path = `/webhooks/${first.webhook_id}/secret/rotate`;
    const second = await client.post(path, { overlap: '1h' });
    expect(second.status).toBe(200);
    const third = await client.post(path);
    const leftMs = (body: { previous_expires_at: string }) => Date.parse(body.previous_expires_at) - Date.now();
    expect(Math.round(leftMs(second.body) / 600_000)).toBe(6);
    expect(Math.round(leftMs(third.body) / 3_600_000)).toBe(24);
    const kept = await secretsOf(first.webhook_id);
    expect(kept.map(({ secret, ends }) => [secret.toString('hex'), ends])).toEqual([
      [secretBytes(second.body.secret).toString('hex'), true],
      [secretBytes(third.body.secret).toString('hex'), false],
    ]);
  });

  it('stay two at most when many are made at once', async () => {
    const client = await server.client();
    const { webhook_id } = await register(client);
    const rotate = () => client.post(`/webhooks/${webhook_id}/secret/rotate`, { overlap: 0 });
    const answers = await Promise.all(Array.from({ length: 6 }, rotate));
    expect(new Set(answers.map(({ status, body }) => `${status} ${body.secret}`)).size).toBe(6);
    expect((await secretsOf(webhook_id)).map(({ ends }) => ends)).toEqual([true, false]);
  });

  it('of callbacks are made on the first call and replaced on the next', async () => {
    const client = await server.client();
    const first = await client.post('/webhooks/callbacks/secret');
    expect(first).toMatchObject({ status: 200, body: { previous_expires_at: null } });
    const second = await client.post('/webhooks/callbacks/secret', { overlap: 'PT2H' });
    expect(secretBytes(second.body.secret)).toHaveLength(24);
    expect(second.body.previous_expires_at).not.toBeNull();
    const text = 'SELECT secret, old_secret FROM millrace.callback_orgs WHERE org_id = $1';
    const { rows } = await server.ledger.db.api.query(text, [client.clientId]);
    const bytesOf = ({ body }: typeof first) => secretBytes(body.secret);
    expect(rows).toEqual([{ secret: bytesOf(second), old_secret: bytesOf(first) }]);
  });

  it.each([{ overlap: 'soon' }, { overlap: '31d' }, { overlap: -1 }, { overlap: 1.5 }, { secret: 'mine' }])('refuse %j', async (sent) => {
    const client = await server.client();
    const { webhook_id } = await register(client);
    for (const path of [`/webhooks/${webhook_id}/secret/rotate`, '/webhooks/callbacks/secret']) {
      const { status, body } = await client.post(path, sent);
      expect([status, body.errors[0].field]).toEqual([400, Object.keys(sent)[0]]);
    }
  });

  it('are in no answer but the one that made them, and in no log', async () => {
    const client = await server.client();
    const { webhook_id, secret } = await register(client);
    const rotated = (await client.post(`/webhooks/${webhook_id}/secret/rotate`)).body.secret;
    const callbacks = (await client.post('/webhooks/callbacks/secret')).body.secret;
    await client.post(`/webhooks/${webhook_id}/test`);
    const [delivery] = await deliveriesOf(client, webhook_id);
    const answers = [
      await client.get('/webhooks', { kind: 'all' }),
      await client.get(`/webhooks/${webhook_id}`),
      await client.send('PATCH', `/webhooks/${webhook_id}`, { enabled: true }),
      await client.get(`/webhooks/${webhook_id}/deliveries`),
      await client.get(`/webhooks/${webhook_id}/deliveries/${delivery.delivery_id}`),
      await client.post('/webhooks', { url: 'nonsense', events: ['*'] }),
      await client.send('DELETE', `/webhooks/${webhook_id}`),
    ];
    const said = JSON.stringify([answers.map(({ body }) => body), server.logs, server.spans]);
    for (const each of [secret, rotated, callbacks]) expect(said).not.toContain(each.slice('whsec_'.length));
    expect(said).not.toContain('whsec_');
  });
});
