import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { AddressLimiter } from '../../src/http/execution/address-limiter.ts';
import { TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const IDEMPOTENCY = 'idempotency-key';

const clientsIn = async (): Promise<number> =>
  (await server.ledger.db.api.query('SELECT count(*)::int4 AS count FROM millrace.clients')).rows[0].count;

const anybodyAt = (url: string) => new TestClient(server, { clientId: '', key: null, url });

describe('POST /v1/clients', () => {
  it('takes nothing, answers 201 with the id alone, and records the client [FR-07.10] [FR-08.05] [FR-08.06] [FR-08.07]', async () => {
    const { status, body } = await server.nobody().post('/clients');
    expect(status).toBe(201);
    expect(body).toEqual({ client_id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    const text = 'SELECT slug FROM millrace.orgs JOIN millrace.clients ON org_id = id WHERE id = $1';
    expect((await server.ledger.db.api.query(text, [body.client_id])).rows).toEqual([{ slug: `client-${body.client_id}` }]);
  });

  it('takes an empty object for nothing, and refuses members', async () => {
    expect((await server.nobody().post('/clients', {})).status).toBe(201);
    const { status, body } = await server.nobody().post('/clients', { name: 'me' });
    expect([status, body.code, body.errors[0].field]).toEqual([400, 'RFA_JOB_VALIDATION_FAILED', 'name']);
  });

  it('needs no credential, and its document says so [FR-08.08]', async () => {
    const operation = server.contract.document.paths['/v1/clients']?.post;
    expect(operation?.security).toEqual([]);
    expect(Object.keys(operation?.responses ?? {})).toEqual(expect.arrayContaining(['201', '500', '503']));
    expect((await server.nobody().post('/clients')).status).toBe(201);
  });

  it('answers a repeat with the same Idempotency-Key with the same client, and makes one [FR-08.04]', async () => {
    const key = randomUUID();
    const before = await clientsIn();
    const post = (given: string) => server.nobody().post('/clients', undefined, { [IDEMPOTENCY]: given });
    const answers = await Promise.all(Array.from({ length: 6 }, () => post(key)));
    answers.push(await post(key));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(answers.map(({ body }) => body.client_id)).size).toBe(1);
    expect(await clientsIn()).toBe(before + 1);
    expect((await post(randomUUID())).body.client_id).not.toBe(answers[0]?.body.client_id);
  });

  it('does not need an Idempotency-Key, and refuses one of more than 256 characters [FR-08.04]', async () => {
    const nobody = server.nobody();
    const [one, other] = [await nobody.post('/clients'), await nobody.post('/clients', undefined, { [IDEMPOTENCY]: '' })];
    expect(one.body.client_id).not.toBe(other.body.client_id);
    const long = await nobody.post('/clients', undefined, { [IDEMPOTENCY]: 'k'.repeat(257) });
    expect([long.status, long.body.code]).toEqual([400, 'RFA_JOB_VALIDATION_FAILED']);
  });
});

describe('registration with a token', () => {
  const TOKEN = 'x-bootstrap-token';

  it('refuses clients and first keys without it', async () => {
    const url = await server.listen({ settings: { registration: 'token', bootstrapToken: 'open sesame' } });
    const nobody = anybodyAt(url);
    const before = await clientsIn();
    for (const headers of [{}, { [TOKEN]: 'open barley' }]) {
      const { status, body } = await nobody.post('/clients', undefined, headers as Record<string, string>);
      expect([status, body.code]).toEqual([401, 'RFA_AUTH_INVALID_CREDENTIALS']);
    }
    expect(await clientsIn()).toBe(before);
    const made = await nobody.post('/clients', undefined, { [TOKEN]: 'open sesame' });
    expect(made.status).toBe(201);
    const path = `/clients/${made.body.client_id}/keys`;
    expect((await nobody.post(path, {})).status).toBe(401);
    expect((await nobody.post(path, {}, { [TOKEN]: 'open sesame' })).status).toBe(201);
  });

  it('that is not configured is an error of the server', async () => {
    const nobody = anybodyAt(await server.listen({ settings: { registration: 'token', bootstrapToken: null } }));
    const { status, body } = await nobody.post('/clients', undefined, { [TOKEN]: 'open sesame' });
    expect([status, body.code]).toEqual([503, 'RFA_CONFIG_INVALID']);
  });
});

describe('calls without a credential', () => {
  it('are limited by the address they come from, and leave nothing behind beyond that', async () => {
    const url = await server.listen({ settings: { openCallsPerMinute: 2 } });
    const client = (await server.client()).at(url);
    const nobody = anybodyAt(url);
    const [made] = [await nobody.post('/clients'), await nobody.post('/clients')];
    const before = await clientsIn();
    const { status, body, headers } = await nobody.post('/clients');
    expect([status, body.code]).toEqual([429, 'RFA_REQUEST_RATE_LIMITED']);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await clientsIn()).toBe(before);
    expect((await nobody.post(`/clients/${made?.body.client_id}/keys`, {})).status).toBe(429);
    for (let call = 0; call < 3; call++) {
      expect((await client.post(`/clients/${client.clientId}/keys`, {})).status).toBe(200);
    }
  });

  it('count anew each minute, and for each address; a /64 of version 6 is one address', () => {
    let nowMs = 0;
    const limiter = new AddressLimiter({ callsPerMinute: 2, nowMs: () => nowMs });
    const allows = (address: string) => limiter.take(address).allowed;
    expect(['10.0.0.1', '::ffff:10.0.0.1', '10.0.0.1', '10.0.0.2'].map(allows)).toEqual([true, true, false, true]);
    const sixes = ['2001:db8::1', '2001:db8:0:0:ffff::2', '2001:0db8::3', '2001:db8:0:1::1', '::1', '::2', '::3'];
    expect(sixes.map(allows)).toEqual([true, true, false, true, true, true, false]);
    expect(limiter.take('10.0.0.1')).toEqual({ allowed: false, limit: 2, remaining: 0, resetMs: 60_000 });
    nowMs = 60_000;
    expect(limiter.take('10.0.0.1')).toEqual({ allowed: true, limit: 2, remaining: 1, resetMs: 60_000 });
  });
});

describe('a client', () => {
  it('initiates jobs: each is of the client whose key submitted it, found by its client id [FR-05.11] [FR-05.12]', async () => {
    const [one, other] = [await server.client(), await server.client()];
    const jobId = await one.submit();
    expect((await one.get(`/jobs/${jobId}`)).status).toBe(200);
    expect((await other.get(`/jobs/${jobId}`)).status).toBe(403);
    const { rows } = await server.ledger.db.api.query('SELECT org_id FROM millrace.jobs WHERE id = $1', [jobId]);
    expect(rows).toEqual([{ org_id: one.clientId }]);
  });

  it('reads about itself: its keys without secrets, and its limits', async () => {
    const client = await server.client();
    const rotated = await client.post(`/clients/${client.clientId}/keys`, { rotate: true });
    const { status, body } = await client.holding(rotated.body.api_key).get('/clients/me');
    expect(status).toBe(200);
    expect(body.client_id).toBe(client.clientId);
    expect(body.keys.map((key: { status: string }) => key.status)).toEqual(['revoked', 'active']);
    expect(body.keys[1]).toMatchObject({ key_id: rotated.body.key_id, expires_at: rotated.body.expires_at });
    expect(JSON.stringify(body)).not.toContain(rotated.body.api_key.slice(20));
    const { queueSize, activeJobs, payloadBytes, maxRuntimeMs } = server.settings;
    expect(body.limits).toEqual({
      ...{ requests_per_minute: null, requests_per_day: null, queue_size: queueSize, active_jobs: activeJobs },
      ...{ payload_bytes: payloadBytes, max_runtime_ms: maxRuntimeMs },
    });
  });

  it('record does not change when its keys are issued, renewed, rotated and revoked [FR-05.13]', async () => {
    const client = await server.client();
    const recordOf = async () => {
      const text = 'SELECT o.*, c.* FROM millrace.orgs o JOIN millrace.clients c ON c.org_id = o.id WHERE o.id = $1';
      return (await server.ledger.db.api.query(text, [client.clientId])).rows;
    };
    const before = await recordOf();
    const path = `/clients/${client.clientId}/keys`;
    const renewed = client.holding((await client.post(`${path}/renew`, {})).body.api_key);
    const rotated = await renewed.post(path, { rotate: true });
    await client.holding(rotated.body.api_key).post(`${path}/revoke`, { key_id: rotated.body.key_id });
    expect(await recordOf()).toEqual(before);
  });
});
