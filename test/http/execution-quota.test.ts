import { describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { createQuota } from '../../src/services/execution/take-quota.ts';
import { watchStatements } from './auth-fixture.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const DAY_SECONDS = 86_400;
const NOON_MS = (DAY_SECONDS / 2) * 1_000;

/** So that no test meets midnight. */
async function moveToNoon(): Promise<void> {
  const { rows } = await server.ledger.db.api.query('SELECT extract(epoch FROM millrace.clock())::float8 * 1000 AS now');
  const dayMs = DAY_SECONDS * 1_000;
  await server.ledger.moveClock(Math.round(dayMs + NOON_MS - (rows[0].now % dayMs)));
}

const jobsOf = async ({ clientId }: TestClient): Promise<number> => {
  const text = 'SELECT count(*)::int4 AS count FROM millrace.jobs WHERE org_id = $1';
  return (await server.ledger.db.api.query(text, [clientId])).rows[0].count;
};

describe('a quota', () => {
  it('refuses the requests of a client beyond it with 429 until the day ends, and accepts none of them [FR-14.62] [FR-14.63]', async () => {
    await moveToNoon();
    const url = await server.listen({ settings: { quota: 3 } });
    const [client, other] = [(await server.client()).at(url), (await server.client()).at(url)];
    for (let call = 0; call < 3; call++) expect((await client.post('/jobs', { type: 'EXECUTE' })).status).toBe(202);
    for (let call = 0; call < 2; call++) {
      const { status, body, headers } = await client.post('/jobs', { type: 'EXECUTE' });
      expect([status, body.code]).toEqual([429, 'RFA_REQUEST_RATE_LIMITED']);
      expect(body.errors[0].field).toBe('quota');
      const waitSeconds = Number(headers.get('retry-after'));
      expect(waitSeconds).toBeGreaterThan(DAY_SECONDS / 4);
      expect(waitSeconds).toBeLessThanOrEqual(DAY_SECONDS / 2);
    }
    expect(await jobsOf(client)).toBe(3);
    expect((await other.get('/clients/me')).body.limits.requests_per_day).toBe(3);
  });

  it('is not counted where none is configured', async () => {
    const client = await server.client();
    const statements = watchStatements();
    for (let call = 0; call < 3; call++) expect((await client.get('/clients/me')).status).toBe(200);
    expect(statements).not.toContain('use_quota');
  });

  it('is exact over processes and callers at once, and a used-up one costs no statement', async () => {
    await moveToNoon();
    const elsewhere = openDatabase({ url: server.ledger.db.url, apiPool: 2 });
    try {
      const orgId = await server.ledger.newOrg();
      const quotas = [createQuota(server.ledger.db, 25), createQuota(elsewhere, 25)];
      const takes = Array.from({ length: 40 }, (_, index) => quotas[index % 2]?.take(orgId));
      const verdicts = await Promise.all(takes);
      expect(verdicts.filter((verdict) => verdict?.allowed)).toHaveLength(25);
      const statements = watchStatements();
      for (const quota of quotas) expect(await quota.take(orgId)).toMatchObject({ allowed: false, remaining: 0 });
      expect(statements.filter((name) => name === 'use_quota').length).toBeLessThanOrEqual(1);
    } finally {
      await elsewhere.close();
    }
  });

  it('begins anew with the next UTC day', async () => {
    await moveToNoon();
    const orgId = await server.ledger.newOrg();
    const take = () => createQuota(server.ledger.db, 1).take(orgId);
    expect([(await take()).allowed, (await take()).allowed]).toEqual([true, false]);
    await server.ledger.moveClock(NOON_MS + 1_000);
    expect(await take()).toMatchObject({ allowed: true, limit: 1, remaining: 0 });
  });
});
