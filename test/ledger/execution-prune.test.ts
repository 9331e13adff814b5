import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { createApiKey, listApiKeys, revokeApiKey } from '../../src/ledger/access/api-keys.ts';
import { getJob } from '../../src/ledger/reads/get-job.ts';
import { historiesOfOrgs } from '../../src/ledger/reads/job-history.ts';
import { pruneAccess } from '../../src/ledger/upkeep/prune-keys.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const DAY = 86_400_000;
const policy = PROFILES.forgerun;

const keysOf = async (orgId: string): Promise<string[]> => {
  const text = 'SELECT key FROM millrace.idempotency_keys WHERE org_id = $1 ORDER BY key';
  return (await ledger.db.api.query(text, [orgId])).rows.map(({ key }) => key);
};

test.each(['completed', 'failed', 'cancelled'] as const)(
  'a %s job goes thirty days after its end with its history and its key, not before [FR-15.05] [FR-15.09] [FR-15.16] [FR-15.17]',
  async (state) => {
    const orgId = await ledger.newOrg();
    const job = await ledger.putJob(state, { orgId, policy, job: { idempotencyKey: 'k', fingerprint: 'f' } });
    await ledger.moveClock(30 * DAY - 60_000);
    await ledger.prune();
    expect(await historiesOfOrgs(ledger.db.api, [job])).not.toEqual([[]]);
    expect(await keysOf(orgId)).toEqual(['k']);
    await ledger.moveClock(60_001);
    await ledger.prune();
    expect(await getJob(ledger.db.api, wholeOrg(orgId), job.id)).toBeNull();
    expect(await ledger.eventsOf(job)).toEqual([]);
    expect(await keysOf(orgId)).toEqual([]);
    await ledger.moveClock(-30 * DAY - 1);
  },
);

test('a key that names a younger job outlives an older job that had it', async () => {
  const orgId = await ledger.newOrg();
  const type = `type-${randomBytes(4).toString('hex')}`;
  const keyed = { orgId, type, job: { idempotencyKey: 'k', fingerprint: 'f' } };
  await ledger.putJob('completed', { ...keyed, policy: { retentionMs: 2 * DAY, keyWindowMs: DAY } });
  await ledger.moveClock(DAY + 1);
  const younger = await ledger.submitOne({ ...keyed, policy });
  await ledger.moveClock(DAY + 1);
  expect((await ledger.prune()).jobs).toBeGreaterThan(0);
  expect(await keysOf(orgId)).toEqual(['k']);
  expect(await ledger.stateOf(younger)).toBe('scheduled');
  await ledger.moveClock(-2 * DAY - 2);
});

test('a job that has not ended stays, however old it is [FR-15.16]', async () => {
  const deferred = await ledger.submitOne({ policy, job: { runAt: new Date(Date.now() + 400 * DAY) } });
  const waiting = await ledger.submitOne({ policy });
  await ledger.moveClock(300 * DAY);
  await ledger.prune();
  expect(await ledger.stateOf(deferred)).toBe('delayed');
  expect(await ledger.stateOf(waiting)).toBe('scheduled');
  await ledger.moveClock(-300 * DAY);
});

test('keys stay while they are in force, and ninety days after they were revoked [FR-15.19] [FR-15.20]', async () => {
  const orgId = await ledger.newOrg();
  for (const id of ['gone', 'kept']) {
    await createApiKey(ledger.db.api, orgId, {
      ...{ id: `${id}-${randomBytes(4).toString('hex')}`, projectId: null, name: 'client key', scopes: [] },
      ...{ secretHash: randomBytes(32), lifetimeMs: 365 * DAY },
    });
  }
  const [gone, kept] = (await listApiKeys(ledger.db.api, orgId)).map(({ id }) => id).sort() as [string, string];
  await revokeApiKey(ledger.db.api, orgId, gone);
  const prune = () => pruneAccess(ledger.db.maintenance, { revokedKeysMs: 90 * DAY, limit: 100 });
  await ledger.moveClock(90 * DAY - 60_000);
  expect(await prune()).toMatchObject({ revokedKeys: 0 });
  expect(await listApiKeys(ledger.db.api, orgId)).toHaveLength(2);
  await ledger.moveClock(60_001);
  expect(await prune()).toMatchObject({ revokedKeys: 1 });
  expect((await listApiKeys(ledger.db.api, orgId)).map(({ id }) => id)).toEqual([kept]);
  await ledger.moveClock(-90 * DAY - 1);
});

test('remembered replies go when their time is over, a bounded number at a time', async () => {
  const text = `INSERT INTO millrace.create_replies (scope, key, fingerprint, reply, expires_at)
    SELECT 'clients:test', n::text, 'f', '{}', millrace.clock() + n * interval '1 day' FROM generate_series(-3, 2) n`;
  await ledger.db.api.query(text);
  const prune = () => pruneAccess(ledger.db.maintenance, { revokedKeysMs: DAY, limit: 3 });
  expect((await prune()).replies).toBe(3);
  expect((await prune()).replies).toBe(1);
  const left = await ledger.db.api.query('SELECT key FROM millrace.create_replies ORDER BY key');
  expect(left.rows.map(({ key }) => key)).toEqual(['1', '2']);
});
