import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parseApiKey } from '../../src/core/api-key.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const DAY_MS = 86_400_000;
const KEY_MEMBERS = ['api_key', 'created_at', 'expires_at', 'key_id'];
const IDEMPOTENCY = 'idempotency-key';

const keysOf = ({ clientId }: TestClient) => `/clients/${clientId}/keys`;
const works = async (client: TestClient) => (await client.get('/clients/me')).status;
const idOf = (client: TestClient) => parseApiKey(client.key as string)?.id;

async function newClientId(): Promise<string> {
  return (await server.nobody().post('/clients')).body.client_id;
}

const storedKeys = async (clientId: string) => {
  const text = 'SELECT id, secret_hash, revoked_at FROM millrace.api_keys WHERE org_id = $1 ORDER BY created_at, id';
  return (await server.ledger.db.api.query(text, [clientId])).rows;
};

const declared = (path: string) =>
  Object.keys(server.contract.document.paths[`/v1/clients/{client_id}/keys${path}`]?.post?.responses ?? {});

const ERRORS = ['400', '401', '403', '404', '409', '500', '503'];

describe('the first key of a client', () => {
  it('needs no credential: 201 with the key, its id and its times [FR-07.11] [FR-08.09] [FR-08.10] [FR-08.11]', async () => {
    const clientId = await newClientId();
    const { status, body } = await server.nobody().post(`/clients/${clientId}/keys`, {});
    expect(status).toBe(201);
    expect(Object.keys(body).sort()).toEqual(KEY_MEMBERS);
    expect(parseApiKey(body.api_key)?.id).toBe(body.key_id);
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).toBe(90 * DAY_MS);
    expect(await works(server.nobody().holding(body.api_key))).toBe(200);
  });

  it('is stored, as a hash of its secret [FR-15.01]', async () => {
    const client = await server.client();
    const [stored, ...others] = await storedKeys(client.clientId);
    expect(others).toEqual([]);
    expect(stored.id).toBe(idOf(client));
    expect(stored.secret_hash).toEqual(Buffer.from(parseApiKey(client.key as string)?.secretHash as Uint8Array));
    expect(JSON.stringify(stored)).not.toContain((client.key as string).slice(20, 60));
  });

  it('takes no body for an empty one, and a rotation for a first key', async () => {
    expect((await server.nobody().post(`/clients/${await newClientId()}/keys`)).status).toBe(201);
    expect((await server.nobody().post(`/clients/${await newClientId()}/keys`, { rotate: true })).status).toBe(201);
  });

  it('is issued once; a caller who asks again must present it [FR-08.12]', async () => {
    const client = await server.client();
    const { status, body } = await server.nobody().post(keysOf(client), {});
    expect([status, body.code]).toEqual([401, 'RFA_AUTH_INVALID_CREDENTIALS']);
    expect(await storedKeys(client.clientId)).toHaveLength(1);
  });

  it('of a client that an operator made is the operator’s to give', async () => {
    const orgId = await server.ledger.newOrg();
    expect((await server.nobody().post(`/clients/${orgId}/keys`, {})).status).toBe(401);
  });

  it('for an unknown client is not found; invalid requests are refused [FR-08.12]', async () => {
    for (const id of [randomUUID(), 'me', 'x'.repeat(150)]) {
      const { status, body } = await server.nobody().post(`/clients/${id}/keys`, {});
      expect([status, body.code]).toEqual([404, 'RFA_CLIENT_NOT_FOUND']);
    }
    const path = `/clients/${await newClientId()}/keys`;
    const wrongKind = await server.nobody().post(path, { rotate: 'yes' });
    expect([wrongKind.status, wrongKind.body.code]).toEqual([400, 'RFA_REQUEST_MALFORMED']);
    const unknown = await server.nobody().post(path, { rotated: true });
    expect([unknown.status, unknown.body.code]).toEqual([400, 'RFA_JOB_VALIDATION_FAILED']);
    expect(declared('')).toEqual(expect.arrayContaining(['200', '201', ...ERRORS]));
  });
});

describe('a repeated creation', () => {
  it('answers 200 with the same metadata and no secret [FR-07.18]', async () => {
    const clientId = await newClientId();
    const first = await server.nobody().post(`/clients/${clientId}/keys`, {});
    const again = await server.nobody().holding(first.body.api_key).post(`/clients/${clientId}/keys`, {});
    expect(again.status).toBe(200);
    expect(again.body).toEqual({ ...first.body, api_key: null });
    expect(await storedKeys(clientId)).toHaveLength(1);
  });

  it('with rotate answers 201 with a new key and id, and the old key ends at once [FR-07.18] [FR-08.09]', async () => {
    const client = await server.client();
    const { status, body } = await client.post(keysOf(client), { rotate: true });
    expect(status).toBe(201);
    expect(body.key_id).not.toBe(idOf(client));
    const old = await client.get('/clients/me');
    expect([old.status, old.body.code]).toEqual([403, 'RFA_AUTH_API_KEY_DISABLED']);
    expect(await works(client.holding(body.api_key))).toBe(200);
  });

  it('with rotate and an Idempotency-Key rotates once; the key with other content is refused [FR-08.04]', async () => {
    const client = await server.client();
    const headers = { [IDEMPOTENCY]: randomUUID() };
    const rotated = await client.post(keysOf(client), { rotate: true }, headers);
    const next = client.holding(rotated.body.api_key);
    const again = await next.post(keysOf(client), { rotate: true }, headers);
    expect([again.status, again.body]).toEqual([200, { ...rotated.body, api_key: null }]);
    const other = await next.post(keysOf(client), {}, headers);
    expect([other.status, other.body.code]).toEqual([409, 'RFA_EXEC_IDEMPOTENCY_CONFLICT']);
    expect(await storedKeys(client.clientId)).toHaveLength(2);
  });

  it('by another client is forbidden, and by a key that may not write too [FR-08.12]', async () => {
    const [client, other] = [await server.client(), await server.client()];
    const reader = await client.with('jobs:read');
    for (const caller of [other, reader]) {
      const { status, body } = await caller.post(keysOf(client), { rotate: true });
      expect([status, body.code]).toEqual([403, 'RFA_AUTH_FORBIDDEN']);
    }
    expect((await other.post(`/clients/${randomUUID()}/keys`, {})).body.code).toBe('RFA_CLIENT_NOT_FOUND');
    expect(await works(client)).toBe(200);
  });

  it('gives a rotated key no more than it had', async () => {
    const writer = await (await server.client()).with('jobs:write');
    const rotated = await writer.post(keysOf(writer), { rotate: true });
    expect(rotated.status).toBe(201);
    expect(await works(writer.holding(rotated.body.api_key))).toBe(403);
  });
});

describe('renewing a key', () => {
  it('keeps its id and gives it a new secret and new times: 200 [FR-07.12] [FR-08.13] [FR-08.14] [FR-08.15]', async () => {
    const clientId = await newClientId();
    const first = await server.nobody().post(`/clients/${clientId}/keys`, {});
    await server.ledger.moveClock(DAY_MS);
    const client = server.nobody().holding(first.body.api_key);
    const { status, body } = await client.post(`/clients/${clientId}/keys/renew`, {});
    expect(status).toBe(200);
    expect(Object.keys(body).sort()).toEqual(KEY_MEMBERS);
    expect(body.key_id).toBe(first.body.key_id);
    expect(body.api_key).not.toBe(first.body.api_key);
    expect(Date.parse(body.created_at)).toBeGreaterThanOrEqual(Date.parse(first.body.created_at) + DAY_MS);
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).toBe(90 * DAY_MS);
    expect(await works(client.holding(body.api_key))).toBe(200);
    expect((await client.get('/clients/me')).body.code).toBe('RFA_AUTH_INVALID_CREDENTIALS');
    expect(await storedKeys(clientId)).toHaveLength(1);
  });

  it('fails as it says: no key, another’s, an expired one, a revoked one, nobody’s, a body with members [FR-08.16] [FR-14.08]', async () => {
    const [client, other] = [await server.client(), await server.client()];
    const renew = async (by: TestClient, clientId = client.clientId, body: object = {}) => {
      const answer = await by.post(`/clients/${clientId}/keys/renew`, body);
      return [answer.status, answer.body.code];
    };
    expect(await renew(server.nobody())).toEqual([401, 'RFA_AUTH_INVALID_CREDENTIALS']);
    expect(await renew(other)).toEqual([403, 'RFA_AUTH_FORBIDDEN']);
    expect(await renew(client, randomUUID())).toEqual([404, 'RFA_CLIENT_NOT_FOUND']);
    expect(await renew(client, client.clientId, { key_id: 'x' })).toEqual([400, 'RFA_JOB_VALIDATION_FAILED']);
    await other.post(`${keysOf(other)}/revoke`, { key_id: idOf(other) });
    expect(await renew(other, other.clientId)).toEqual([403, 'RFA_AUTH_API_KEY_DISABLED']);
    const late = await server.client();
    await server.ledger.moveClock(91 * DAY_MS);
    expect(await renew(late, late.clientId)).toEqual([401, 'RFA_AUTH_TOKEN_EXPIRED']);
    expect(declared('/renew')).toEqual(expect.arrayContaining(['200', ...ERRORS]));
  });
});

describe('revoking a key', () => {
  it('answers 200 { revoked: true }, the key ends at once, and its record says so [FR-07.13] [FR-08.17] [FR-08.18] [FR-08.19] [FR-15.02] [FR-14.07]', async () => {
    const client = await server.client();
    const second = await client.with('jobs:write', 'jobs:read');
    const { status, body } = await client.post(`${keysOf(client)}/revoke`, { key_id: idOf(second) });
    expect([status, body]).toEqual([200, { revoked: true }]);
    const refused = await second.get('/clients/me');
    expect([refused.status, refused.body.code]).toEqual([403, 'RFA_AUTH_API_KEY_DISABLED']);
    const stored = (await storedKeys(client.clientId)).find(({ id }) => id === idOf(second));
    expect(stored.revoked_at).toBeInstanceOf(Date);
    expect(await works(client)).toBe(200);
  });

  it('again changes nothing, and the last key may be revoked by itself', async () => {
    const client = await server.client();
    const second = await client.with('jobs:write');
    const revoke = (key: TestClient) => client.post(`${keysOf(client)}/revoke`, { key_id: idOf(key) });
    await revoke(second);
    const before = await storedKeys(client.clientId);
    expect((await revoke(second)).body).toEqual({ revoked: true });
    expect(await storedKeys(client.clientId)).toEqual(before);
    expect((await revoke(client)).body).toEqual({ revoked: true });
    expect(await works(client)).toBe(403);
  });

  it('fails as it says: no key id, an unknown one, another client’s, a greater one, no credential [FR-08.20] [FR-14.09]', async () => {
    const [client, other] = [await server.client(), await server.client()];
    const operator = await client.with('jobs:write', 'operator');
    const revoke = async (by: TestClient, body: object, at: TestClient = client) => {
      const answer = await by.post(`${keysOf(at)}/revoke`, body);
      return [answer.status, answer.body.code];
    };
    expect(await revoke(client, {})).toEqual([400, 'RFA_REQUEST_MALFORMED']);
    expect(await revoke(client, { key_id: 7 })).toEqual([400, 'RFA_REQUEST_MALFORMED']);
    for (const id of ['0000000000000', 'x', idOf(other)]) {
      expect(await revoke(client, { key_id: id })).toEqual([404, 'RFA_KEY_NOT_FOUND']);
    }
    expect(await revoke(client, { key_id: idOf(operator) })).toEqual([403, 'RFA_AUTH_FORBIDDEN']);
    expect(await revoke(other, { key_id: idOf(client) })).toEqual([403, 'RFA_AUTH_FORBIDDEN']);
    expect(await revoke(server.nobody(), { key_id: idOf(client) })).toEqual([401, 'RFA_AUTH_INVALID_CREDENTIALS']);
    expect(await Promise.all([client, other].map(works))).toEqual([200, 200]);
    expect((await operator.post('/jobs', { type: 'EXECUTE' })).status).toBe(202);
    expect(declared('/revoke')).toEqual(expect.arrayContaining(['200', ...ERRORS]));
  });
});
