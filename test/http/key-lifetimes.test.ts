import { expect, it } from 'vitest';
import { type ApiKeyScope, DEFAULT_SCOPES } from '../../src/core/api-key.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** An org with a key for one hour that the operator gave. */
async function given(...scopes: ApiKeyScope[]) {
  const orgId = await server.ledger.newOrg();
  const { key, expiresAt } = await createKey(server.ledger.db, { orgId, scopes: [...DEFAULT_SCOPES, ...scopes], lifetimeMs: HOUR_MS });
  return { client: new TestClient(server, { clientId: orgId, key }), expiresAt };
}

const WAYS = [
  ['renewed', '/keys/renew', {}],
  ['rotated', '/keys', { rotate: true }],
] as const;

it.each(WAYS)('a key of the operator ends when the operator said, also after it was %s', async (_, path, body) => {
  const { client, expiresAt } = await given();
  let holder = client;
  for (let round = 0; round < 2; round++) {
    const answer = await holder.post(`/clients/${client.clientId}${path}`, body);
    expect([200, 201]).toContain(answer.status);
    expect(answer.body.expires_at).toBe(expiresAt.toISOString());
    holder = client.holding(answer.body.api_key);
  }
  await server.ledger.moveClock(HOUR_MS);
  expect((await holder.at(await server.listen()).get('/jobs')).status).toBe(401);
  await server.ledger.moveClock(-HOUR_MS);
});

it.each(WAYS)('with the scope keys:renew its own lifetime begins again when it is %s, and no longer one', async (_, path, body) => {
  const { client } = await given('keys:renew');
  let holder = client;
  for (let round = 0; round < 2; round++) {
    const answer = await holder.post(`/clients/${client.clientId}${path}`, body);
    expect(Date.parse(answer.body.expires_at) - Date.parse(answer.body.created_at)).toBe(HOUR_MS);
    holder = client.holding(answer.body.api_key);
  }
});

it.each(WAYS)('a key from registration gets the configured lifetime again when it is %s', async (_, path, body) => {
  const client = await server.client();
  const answer = await client.post(`/clients/${client.clientId}${path}`, body);
  expect(Date.parse(answer.body.expires_at) - Date.parse(answer.body.created_at)).toBe(90 * DAY_MS);
});
