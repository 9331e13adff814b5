import { beforeAll, describe, expect, it } from 'vitest';
import { createKey } from '../../src/services/access/create-key.ts';
import { until } from '../until.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const paid: unknown[] = [];
beforeAll(async () => {
  server.engine.registry.register({ type: 'payout.send', handler: (_, payload) => void paid.push(payload) });
  server.engine.registry.register({
    type: 'payout.refused',
    maxAttempts: 1,
    handler: () => {
      throw new Error('no');
    },
  });
  // A worker announces its types when it starts.
  await server.worker('none');
  await server.worker('start');
});

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
type Answer = { status: number; body: any };

async function throughQueue(key: string | null, method: string, path: string, sent?: object): Promise<Answer> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(`${server.url}/queue/v1${path}`, { method, headers, body: JSON.stringify(sent) });
  return { status: response.status, body: await response.json() };
}

const jobsOf = async ({ clientId }: TestClient): Promise<string[]> => {
  const { rows } = await server.ledger.db.api.query('SELECT job_type FROM millrace.jobs WHERE org_id = $1', [clientId]);
  return rows.map(({ job_type }) => job_type);
};

const REFUSED = { status: 403, body: { code: 'FORBIDDEN', details: [{ code: 'SELF_REGISTERED' }] } };

describe('a client that registered itself', () => {
  it.each([
    ['a job', '/jobs', { type: 'payout.send', payload: { to: 'me' } }],
    ['a batch', '/jobs/batch', { jobs: [{ type: 'payout.send', payload: { to: 'me' } }], atomic: false }],
    ['a job of a built-in type', '/jobs', { type: 'simulate', payload: {} }],
    ['a job under an inherited name', '/jobs', { type: '__proto__', payload: {} }],
    ['a job of a reserved type', '/jobs', { type: 'forgerun.simulated', payload: {} }],
  ])('cannot submit %s to handlers of the operator, and learns what to do', async (_, path, sent) => {
    const client = await server.client();
    const refused = await throughQueue(client.key, 'POST', path, sent);
    expect(refused).toMatchObject(REFUSED);
    expect(refused.body.message).toMatch(/POST \/v1\/jobs.*millrace keys create/);
    expect(await jobsOf(client)).toEqual([]);
    expect(paid).not.toContainEqual({ to: 'me' });
  });

  it('cannot do so with a renewed or a rotated key either', async () => {
    const client = await server.client();
    const renewed = (await client.post(`/clients/${client.clientId}/keys/renew`, {})).body.api_key;
    const submission = { type: 'payout.send', payload: {} };
    expect(await throughQueue(renewed, 'POST', '/jobs', submission)).toMatchObject(REFUSED);
    const rotated = (await client.holding(renewed).post(`/clients/${client.clientId}/keys`, { rotate: true })).body.api_key;
    expect(await throughQueue(rotated, 'POST', '/jobs', submission)).toMatchObject(REFUSED);
  });

  it('keeps its own jobs of /v1, which it may change and retry through the queue API', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'FAIL_IMMEDIATE' });
    await client.reached(id, 'FAILED');
    expect((await throughQueue(client.key, 'POST', `/jobs/${id}/retry`, {})).body.status).toBe('QUEUED');
    expect((await throughQueue(client.key, 'GET', `/jobs/${id}`)).status).toBe(200);
  });

  it('neither retries nor changes a job that its org submitted with a key of the operator', async () => {
    const client = await server.client();
    const { key } = await createKey(server.ledger.db, { orgId: client.clientId });
    const failing = await throughQueue(key, 'POST', '/jobs', { type: 'payout.refused', payload: {} });
    const later = await throughQueue(key, 'POST', '/jobs', { type: 'payout.send', payload: {}, delay: 'PT1H' });
    expect([failing.status, later.status]).toEqual([202, 202]);
    await until(
      'the job is a dead letter',
      async () => (await throughQueue(key, 'GET', `/jobs/${failing.body.job_id}`)).body.state,
      (state) => state === 'DEAD_LETTER' || state === 'FAILED',
    );
    const answers = [
      await throughQueue(client.key, 'POST', `/jobs/${failing.body.job_id}/retry`, { reset_attempts: true }),
      await throughQueue(client.key, 'PATCH', `/jobs/${later.body.job_id}`, { callback_url: 'https://example.com/' }),
    ];
    for (const answer of answers) expect(answer).toMatchObject(REFUSED);
    expect((await throughQueue(key, 'POST', `/jobs/${failing.body.job_id}/retry`, {})).status).toBe(200);
  });

  it('submits any type with a key that the operator gave its org', async () => {
    const client = await server.client();
    const { key } = await createKey(server.ledger.db, { orgId: client.clientId });
    expect((await throughQueue(key, 'POST', '/jobs', { type: 'payout.send', payload: { to: 'them' } })).status).toBe(202);
    await until(
      'the handler ran',
      async () => paid.length,
      (count) => count > 0,
    );
  });
});
