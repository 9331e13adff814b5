import { describe, expect, it, onTestFinished } from 'vitest';
import { KeyAuthenticator } from '../../src/http/shared/key-authenticator.ts';
import { whileHolding } from '../ledger/while-holding.ts';
import { until } from '../until.ts';
import { watchStatements } from './auth-fixture.ts';
import { type Answer, type TestClient, useExecution } from './execution-fixture.ts';
import { stopTime } from './stopped-time.ts';

const server = useExecution({}, { locks: true });
const keysOf = ({ clientId }: { clientId: string }) => `/clients/${clientId}/keys`;
const codesOf = (answers: readonly Answer[]) => answers.map(({ status, body }) => `${status} ${body.code ?? ''}`).sort();
const works = async (client: TestClient) => (await client.get('/clients/me')).status;

// The note of a key's last use is written by itself and may meet the lock too.
const WAITING = `SELECT count(*)::int4 AS count FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock' AND query NOT LIKE '%last_used_at%'`;

const untilWaiting = (count: number) =>
  until(`${count} requests wait for the lock`, async () => (await server.ledger.db.maintenance.query(WAITING)).rows[0].count, count);

/** Holds a row until all the calls wait for it, in their order: each has been let in by what was before. */
async function inOrder(text: string, id: string, calls: readonly (() => Promise<Answer>)[]): Promise<Answer[]> {
  const sent: Promise<Answer>[] = [];
  await whileHolding({ url: server.ledger.db.url, text, values: [id] }, async () => {
    for (const call of calls) {
      sent.push(call());
      await untilWaiting(sent.length);
    }
  });
  return Promise.all(sent);
}

const CLIENT_ROW = 'SELECT FROM millrace.clients WHERE org_id = $1 FOR UPDATE';
const KEY_ROW = 'SELECT FROM millrace.api_keys WHERE org_id = $1 FOR UPDATE';

describe('of several calls at once', () => {
  it('one gets the first key, the others 409 [FR-08.12]', async () => {
    const clientId = (await server.nobody().post('/clients')).body.client_id as string;
    const call = () => server.nobody().post(keysOf({ clientId }), {});
    const answers = await inOrder(CLIENT_ROW, clientId, [call, call, call]);
    expect(codesOf(answers)).toEqual(['201 ', '409 RFA_KEY_CONFLICT', '409 RFA_KEY_CONFLICT']);
    const winner = answers.find(({ status }) => status === 201) as Answer;
    expect(await works(server.nobody().holding(winner.body.api_key))).toBe(200);
  });

  it('one gets the first key also where they carry the same Idempotency-Key', async () => {
    const clientId = (await server.nobody().post('/clients')).body.client_id as string;
    const call = () => server.nobody().post(keysOf({ clientId }), {}, { 'idempotency-key': 'same' });
    expect(codesOf(await inOrder(CLIENT_ROW, clientId, [call, call]))).toEqual(['201 ', '409 RFA_KEY_CONFLICT']);
  });

  it('one rotates the key, the others 409; one key holds in the end', async () => {
    const client = await server.client();
    const call = () => client.post(keysOf(client), { rotate: true });
    const answers = await inOrder(KEY_ROW, client.clientId, [call, call, call]);
    expect(codesOf(answers)).toEqual(['201 ', '409 RFA_KEY_CONFLICT', '409 RFA_KEY_CONFLICT']);
    const winner = client.holding(answers.find(({ status }) => status === 201)?.body.api_key);
    const { keys } = (await winner.get('/clients/me')).body as { keys: { status: string }[] };
    expect(keys.map(({ status }) => status)).toEqual(['revoked', 'active']);
  });

  it('one renews the key, the others 409; its secret is the one that holds [FR-08.16]', async () => {
    const client = await server.client();
    const call = () => client.post(`${keysOf(client)}/renew`, {});
    const answers = await inOrder(KEY_ROW, client.clientId, [call, call, call]);
    expect(codesOf(answers)).toEqual(['200 ', '409 RFA_KEY_CONFLICT', '409 RFA_KEY_CONFLICT']);
    const winner = client.holding(answers.find(({ status }) => status === 200)?.body.api_key);
    expect(await works(winner)).toBe(200);
  });

  it('a renewal that comes after a revocation is refused as such [FR-14.08]', async () => {
    const client = await server.client();
    const keyId = (await client.get('/clients/me')).body.keys[0].key_id as string;
    const [revoked, renewed] = await inOrder(KEY_ROW, client.clientId, [
      () => client.post(`${keysOf(client)}/revoke`, { key_id: keyId }),
      () => client.post(`${keysOf(client)}/renew`, {}),
    ]);
    expect(revoked?.body).toEqual({ revoked: true });
    expect([renewed?.status, renewed?.body.code]).toEqual([403, 'RFA_AUTH_API_KEY_DISABLED']);
  });
});

describe('another process that knew the key', () => {
  it('takes the new secret of a renewed key at once', async () => {
    const elsewhere = new KeyAuthenticator({ database: server.ledger.db });
    const url = await server.listen({ authenticator: elsewhere });
    const client = await server.client();
    expect(await works(client.at(url))).toBe(200);
    const knownAtMs = performance.now();
    // A reading so young is not doubted: it was made after the key was renewed, or a moment before.
    await until('the reading is old enough to be doubted', () => performance.now() - knownAtMs > 100);
    const renewed = await client.post(`${keysOf(client)}/renew`, {});
    expect(await works(client.at(url).holding(renewed.body.api_key))).toBe(200);
    expect(await works(client.at(url))).toBe(401);
  });

  it('does not ask the ledger for each wrong secret', async () => {
    const client = await server.client();
    const renewed = await client.post(`${keysOf(client)}/renew`, {});
    const authenticator = new KeyAuthenticator({ database: server.ledger.db });
    onTestFinished(() => authenticator.close());
    const letPass = stopTime();
    await authenticator.authenticate(`Bearer ${renewed.body.api_key}`);
    // Old enough to be doubted. A second later it would be doubted once more.
    letPass(200);
    const statements = watchStatements();
    for (let guess = 0; guess < 50; guess++) {
      await expect(authenticator.authenticate(`Bearer ${client.key}`)).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
    }
    expect(statements.filter((name) => name === 'find_api_keys')).toHaveLength(1);
  });
});
