import { describe, expect, it } from 'vitest';
import type { TestClient } from './execution-fixture.ts';
import { PUBLIC_URL, register, secretBytes, useWebhookApi } from './webhook-fixture.ts';

const server = useWebhookApi();
const KEY = 'idempotency-key';

const countOf = async (client: TestClient): Promise<number> => (await client.get('/webhooks')).body.webhooks.length;

describe('POST /v1/webhooks', () => {
  it('takes a URL and events, and answers 201 with the id, the time and the secret [FR-08.58] [FR-08.59] [FR-08.60]', async () => {
    const client = await server.client();
    const { status, body } = await client.post('/webhooks', {
      url: PUBLIC_URL,
      events: ['job.succeeded', 'job.created'],
    });
    expect(status).toBe(201);
    expect(Object.keys(body)).toEqual(['webhook_id', 'created_at', 'secret']);
    expect(secretBytes(body.secret)).toHaveLength(24);
    expect((await client.get(`/webhooks/${body.webhook_id}`)).body).toEqual({
      ...{ webhook_id: body.webhook_id, kind: 'webhook', url: PUBLIC_URL, events: ['job.created', 'job.succeeded'] },
      ...{ description: null, enabled: true, disabled_at: null, disabled_reason: null },
      ...{ created_at: body.created_at, updated_at: body.created_at, failing_since: null, consecutive_failures: 0 },
      ...{ queued: 0, last_delivery_at: null, totals: { delivered: 0, attempts: 0, failures: 0 } },
    });
    const known = server.logs.filter((line) => line.message === 'webhook.registered');
    expect(known).toContainEqual(expect.objectContaining({ webhook_id: body.webhook_id, client_id: client.clientId }));
  });

  it.each([
    ['ftp://public.example/x', 'INVALID_URL'],
    ['javascript:alert(1)', 'INVALID_URL'],
    ['nonsense', 'INVALID_URL'],
    ['', 'INVALID_URL'],
    ['https://', 'INVALID_URL'],
    ['//public.example/x', 'INVALID_URL'],
    ['https://user:pass@public.example/x', 'INVALID_URL'],
    ['https://public.example:22/x', 'INVALID_URL'],
    ['https://public example/x', 'INVALID_URL'],
    ['http://127.0.0.1/x', 'FORBIDDEN_ADDRESS'],
    ['http://localhost:8080/x', 'FORBIDDEN_ADDRESS'],
    ['http://0x7f.1/x', 'FORBIDDEN_ADDRESS'],
    ['http://[::ffff:10.0.0.1]/x', 'FORBIDDEN_ADDRESS'],
    ['http://169.254.169.254/latest/meta-data', 'FORBIDDEN_ADDRESS'],
    ['https://inside.example/x', 'FORBIDDEN_ADDRESS'],
    ['https://mixed.example/x', 'FORBIDDEN_ADDRESS'],
  ])('refuses %j: %s [FR-14.54] [FR-08.61]', async (url, code) => {
    const client = await server.client();
    const { status, body } = await client.post('/webhooks', { url, events: ['*'] });
    expect([status, body.code, body.errors[0].field, body.errors[0].code]).toEqual([...[400, 'RFA_JOB_VALIDATION_FAILED', 'url', code]]);
    expect(await countOf(client)).toBe(0);
  });

  it('says nothing of where a refused name leads', async () => {
    const { body } = await (await server.client()).post('/webhooks', { url: 'https://inside.example/', events: ['*'] });
    expect(JSON.stringify(body)).not.toContain('10.0.0.1');
  });

  it('takes a name that leads nowhere yet: it is looked up again before each call', async () => {
    await register(await server.client(), { url: 'https://nowhere.example/hook' });
  });

  it.each([
    [{ events: ['*'] }, ['url REQUIRED']],
    [{ url: null, events: ['*'] }, ['url INVALID_TYPE']],
    [{ url: PUBLIC_URL }, ['events REQUIRED']],
    [{ url: PUBLIC_URL, events: 'job.created' }, ['events INVALID_TYPE']],
    [{ url: PUBLIC_URL, events: [] }, ['events OUT_OF_RANGE']],
    [{ url: PUBLIC_URL, events: ['job.created', 'job.suceeded'] }, ['events[1] UNKNOWN_EVENT']],
    [{ url: PUBLIC_URL, events: ['webhook.test'] }, ['events[0] UNKNOWN_EVENT']],
    [{ url: 'nonsense', events: ['nothing'] }, ['url INVALID_URL', 'events[0] UNKNOWN_EVENT']],
    [{ url: PUBLIC_URL, events: ['*'], secret: 'mine' }, ['secret UNKNOWN_MEMBER']],
    [{ url: PUBLIC_URL, events: ['*'], description: 'x'.repeat(257) }, ['description TOO_LONG']],
    [{ url: PUBLIC_URL, events: ['*'], description: 'a\0b' }, ['description INVALID_TEXT']],
  ])('refuses %j and names every member that is wrong [FR-14.54] [FR-08.61]', async (sent, wrong) => {
    const client = await server.client();
    const { status, body } = await client.post('/webhooks', sent);
    const found = body.errors.map(({ field, code }: { field: string; code: string }) => `${field} ${code}`);
    expect([status, found]).toEqual([400, wrong]);
    expect(await countOf(client)).toBe(0);
  });

  it('suggests the event that was probably meant', async () => {
    const { body } = await (await server.client()).post('/webhooks', { url: PUBLIC_URL, events: ['job.suceeded'] });
    expect(body.errors[0].message).toContain('did you mean job.succeeded?');
  });

  it('keeps events once each and sorted; * stands for all', async () => {
    const client = await server.client();
    const { webhook_id } = await register(client, { events: ['job.failed', '*', 'job.failed'] });
    expect((await client.get(`/webhooks/${webhook_id}`)).body.events).toEqual(['*']);
  });

  it('refuses the same events for the same URL, however they are written [FR-08.61]', async () => {
    const client = await server.client();
    const url = 'https://public.example/same';
    const first = await register(client, { url, events: ['job.created', 'job.failed'] });
    const again = {
      url: 'https://PUBLIC.example:443/./same#here',
      events: ['job.failed', 'job.created', 'job.failed'],
    };
    const { status, body } = await client.post('/webhooks', again);
    expect([status, body.code]).toEqual([409, 'RFA_WEBHOOK_CONFLICT']);
    await register(client, { url, events: ['job.created'] });
    await register(await server.client(), { url, events: ['job.created', 'job.failed'] });
    await client.send('DELETE', `/webhooks/${first.webhook_id}`);
    await register(client, again);
  });

  it('makes one of many equal registrations at once [FR-08.61]', async () => {
    const client = await server.client();
    const answers = await Promise.all(Array.from({ length: 8 }, () => client.post('/webhooks', { url: PUBLIC_URL, events: ['*'] })));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 7 }, () => 409)]);
    expect(await countOf(client)).toBe(1);
  });

  it('answers a repeat with the same Idempotency-Key with the same webhook and no secret [FR-08.04]', async () => {
    const client = await server.client();
    const sent = { url: PUBLIC_URL, events: ['*'], description: 'mine' };
    const first = await client.post('/webhooks', sent, { [KEY]: 'k' });
    const again = await client.post('/webhooks', sent, { [KEY]: 'k' });
    expect(first.body.secret).toMatch(/^whsec_/);
    expect(again).toMatchObject({ status: 201, body: { ...first.body, secret: null } });
    const other = await client.post('/webhooks', { ...sent, events: ['job.created'] }, { [KEY]: 'k' });
    expect([other.status, other.body.code]).toEqual([409, 'RFA_EXEC_IDEMPOTENCY_CONFLICT']);
    const stranger = await (await server.client()).post('/webhooks', sent, { [KEY]: 'k' });
    expect(stranger.body.webhook_id).not.toBe(first.body.webhook_id);
    expect(await countOf(client)).toBe(1);
  });

  it('shows the secret to one of many requests with the same key at once [FR-08.04]', async () => {
    const client = await server.client();
    const sent = { url: PUBLIC_URL, events: ['*'] };
    const answers = await Promise.all(Array.from({ length: 8 }, () => client.post('/webhooks', sent, { [KEY]: 'race' })));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 201));
    expect(new Set(answers.map(({ body }) => body.webhook_id)).size).toBe(1);
    expect(answers.filter(({ body }) => body.secret !== null)).toHaveLength(1);
  });

  it('leaves the key free when the registration was refused [FR-08.04]', async () => {
    const client = await server.client();
    const sent = { url: PUBLIC_URL, events: ['*'] };
    const { webhook_id } = await register(client, sent);
    expect((await client.post('/webhooks', sent, { [KEY]: 'k' })).status).toBe(409);
    await client.send('DELETE', `/webhooks/${webhook_id}`);
    expect((await client.post('/webhooks', sent, { [KEY]: 'k' })).body.secret).toMatch(/^whsec_/);
  });

  it('holds a client to a hundred webhooks, also at once', async () => {
    const client = await server.client();
    const { webhook_id } = await register(client);
    // One after the other: so many at once would wait for each other longer than a request may.
    for (let count = 1; count < 98; count++) await register(client);
    const sent = Array.from({ length: 4 }, (_, index) => ({ url: `${PUBLIC_URL}${index}`, events: ['*'] }));
    const answers = await Promise.all(sent.map((each) => client.post('/webhooks', each)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 409, 409]);
    await client.send('DELETE', `/webhooks/${webhook_id}`);
    await register(client);
  });
});
