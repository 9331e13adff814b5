import { randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { API_KEY_RANDOM_BYTES, formatApiKey, formatApiKeyWithId, parseApiKey } from '../../src/core/api-key.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const DAY_MS = 86_400_000;

const jobsIn = async (): Promise<number> =>
  (await server.ledger.db.api.query('SELECT count(*)::int4 AS count FROM millrace.jobs')).rows[0].count;

/** A submission that must be refused, and must leave nothing. */
async function refusedSubmission(authorization: string | undefined) {
  const before = await jobsIn();
  const headers = authorization === undefined ? {} : { authorization };
  const answer = await server.nobody().post('/jobs', { type: 'EXECUTE' }, headers as Record<string, string>);
  expect(await jobsIn()).toBe(before);
  return answer;
}

const unknownKey = () => formatApiKey(randomBytes(API_KEY_RANDOM_BYTES)).key;

const refusalsOf = (requestId: string) => server.logs.filter((line) => line.message === 'auth failed' && line.request_id === requestId);

describe('without a key', () => {
  it.each([
    ['no header', undefined],
    ['an empty header', ''],
    ['an empty key', 'Bearer '],
    ['another scheme', 'Basic YTpi'],
    ['something that is no key', 'Bearer me'],
  ])('%s: 401, the request is not processed and no job is created [FR-14.01] [FR-14.02]', async (_, authorization) => {
    const { status, body, headers } = await refusedSubmission(authorization);
    expect([status, body.code]).toEqual([401, 'RFA_AUTH_INVALID_CREDENTIALS']);
    expect(headers.get('www-authenticate')).toContain('Bearer');
  });

  it('the answer does not even say what is wrong with the body [FR-14.02]', async () => {
    const { status, body } = await server.nobody().post('/jobs', { type: 'NOTHING' });
    expect([status, body.code]).toEqual([401, 'RFA_AUTH_INVALID_CREDENTIALS']);
    expect(JSON.stringify(body)).not.toContain('NOTHING');
  });
});

describe('an unknown key', () => {
  it('is refused with 401, and no job is created [FR-14.03] [FR-14.04]', async () => {
    const { status, body } = await refusedSubmission(`Bearer ${unknownKey()}`);
    expect([status, body.code]).toEqual([401, 'RFA_AUTH_INVALID_CREDENTIALS']);
  });

  it('learns nothing of a job, nor whether there is one [FR-14.04]', async () => {
    const client = await server.client();
    const jobId = await client.submit();
    const stranger = client.holding(unknownKey());
    const answers = [await stranger.get(`/jobs/${jobId}`), await stranger.get(`/jobs/${randomUUID()}`)];
    for (const path of [`/jobs/${jobId}/report`, '/jobs', '/reports']) answers.push(await stranger.get(path));
    for (const action of ['cancel', 'retry']) answers.push(await stranger.post(`/jobs/${jobId}/${action}`));
    for (const { status, body } of answers) {
      expect([status, body.code]).toEqual([401, 'RFA_AUTH_INVALID_CREDENTIALS']);
      expect(JSON.stringify(body)).not.toContain(jobId);
    }
  });

  it('with the id of a real one and another secret is as unknown [FR-14.03]', async () => {
    const client = await server.client();
    const { key } = formatApiKeyWithId(parseApiKey(client.key as string)?.id as string, randomBytes(32));
    const { status, body } = await refusedSubmission(`Bearer ${key}`);
    expect([status, body.code]).toEqual([401, 'RFA_AUTH_INVALID_CREDENTIALS']);
  });

  it('that was pruned after its revocation is treated as unknown [FR-14.03]', async () => {
    const client = await server.client();
    await server.ledger.db.api.query('DELETE FROM millrace.api_keys WHERE org_id = $1', [client.clientId]);
    const { status, body } = await refusedSubmission(`Bearer ${client.key}`);
    expect([status, body.code]).toEqual([401, 'RFA_AUTH_INVALID_CREDENTIALS']);
  });
});

describe('an expired key', () => {
  it('is refused with 401 on every call, never accepted again, and no job is created [FR-14.05] [FR-14.06]', async () => {
    const client = await server.client();
    const jobId = await client.submit();
    await client.reached(jobId, 'SUCCEEDED');
    const old = await createKey(server.ledger.db, { orgId: client.clientId, lifetimeMs: DAY_MS });
    await server.ledger.moveClock(2 * DAY_MS);
    const { status, body } = await refusedSubmission(`Bearer ${old.key}`);
    expect([status, body.code]).toEqual([401, 'RFA_AUTH_TOKEN_EXPIRED']);
    const expired = client.holding(old.key);
    for (const answer of [
      await expired.get(`/jobs/${jobId}`),
      await expired.post(`/jobs/${jobId}/cancel`),
      await expired.post(`/clients/${client.clientId}/keys`, { rotate: true }),
      await expired.post(`/clients/${client.clientId}/keys/renew`, {}),
    ])
      expect([answer.status, answer.body.code]).toEqual([401, 'RFA_AUTH_TOKEN_EXPIRED']);
  });
});

describe('a revoked key', () => {
  it('is refused with 403, also while its record is kept, and no job is created [FR-14.07] [FR-15.03]', async () => {
    const client = await server.client();
    const keyId = parseApiKey(client.key as string)?.id;
    await client.post(`/clients/${client.clientId}/keys/revoke`, { key_id: keyId });
    const { status, body } = await refusedSubmission(`Bearer ${client.key}`);
    expect([status, body.code]).toEqual([403, 'RFA_AUTH_API_KEY_DISABLED']);
  });
});

describe('the log', () => {
  const requestIdOf = ({ headers }: { headers: Headers }) => headers.get('x-request-id') as string;

  /** The reason and the client that the log names for the refusal of a call. */
  async function logged(call: Promise<{ headers: Headers }>) {
    const lines = refusalsOf(requestIdOf(await call));
    expect(lines).toHaveLength(1);
    return [lines[0]?.reason, lines[0]?.client_id];
  }

  const read = (client: TestClient) => client.get('/jobs');

  it('names the client and the reason of each auth failure, once [FR-16.33]', async () => {
    const [client, other] = [await server.client(), await server.client()];
    const { clientId } = client;
    const id = parseApiKey(client.key as string)?.id as string;
    expect(await logged(read(client.holding(null)))).toEqual(['MISSING', undefined]);
    expect(await logged(read(client.holding('me')))).toEqual(['MALFORMED', undefined]);
    expect(await logged(read(client.holding(unknownKey())))).toEqual(['UNKNOWN', undefined]);
    const wrongSecret = formatApiKeyWithId(id, randomBytes(32)).key;
    expect(await logged(read(client.holding(wrongSecret)))).toEqual(['UNKNOWN', clientId]);
    expect(await logged(read(await client.with('jobs:write')))).toEqual(['MISSING_SCOPE', clientId]);
    expect(await logged(other.post(`/clients/${clientId}/keys`, {}))).toEqual(['FOREIGN', other.clientId]);
    expect(await logged(server.nobody().post(`/clients/${clientId}/keys`, {}))).toEqual(['MISSING', undefined]);
    await client.post(`/clients/${clientId}/keys/revoke`, { key_id: id });
    expect(await logged(read(client))).toEqual(['REVOKED', clientId]);
    const old = await createKey(server.ledger.db, { orgId: clientId, lifetimeMs: DAY_MS });
    await server.ledger.moveClock(2 * DAY_MS);
    expect(await logged(read(client.holding(old.key)))).toEqual(['EXPIRED', clientId]);
  });

  it('names who reached for a job of another client, and never a secret [FR-16.33]', async () => {
    const [client, other] = [await server.client(), await server.client()];
    const jobId = await client.submit();
    const answer = await other.get(`/jobs/${jobId}`);
    expect(answer.status).toBe(403);
    expect(refusalsOf(requestIdOf(answer))).toMatchObject([{ level: 'warn', client_id: other.clientId }]);
    expect(JSON.stringify(server.logs)).not.toContain((other.key as string).slice(20));
  });
});
