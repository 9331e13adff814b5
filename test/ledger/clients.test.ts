import { randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { API_KEY_RANDOM_BYTES, DEFAULT_SCOPES, formatApiKey, formatApiKeyWithId } from '../../src/core/api-key.ts';
import { createApiKey, findApiKeys } from '../../src/ledger/access/api-keys.ts';
import { issueFirstKey, renewClientKey, revokeClientKey, rotateClientKey } from '../../src/ledger/access/client-keys.ts';
import { createClient, findClient } from '../../src/ledger/access/clients.ts';
import { claimReply, findReply } from '../../src/ledger/access/create-replies.ts';
import { useQuota } from '../../src/ledger/access/quota.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { depthByOrg } from '../../src/ledger/queues/queue-depth.ts';
import { pruneAccess } from '../../src/ledger/upkeep/prune-keys.ts';
import { useLedger } from './fixture.ts';
import { moveToMidday } from './set-clock.ts';

const ledger = useLedger();
const DAY_MS = 86_400_000;
const draw = () => formatApiKey(randomBytes(API_KEY_RANDOM_BYTES));

async function newClient(): Promise<string> {
  const id = randomUUID();
  await createClient(ledger.db.api, id);
  return id;
}

function firstKey(orgId: string) {
  const { id, secretHash } = draw();
  const key = { id, secretHash, name: 'client key', scopes: DEFAULT_SCOPES, lifetimeMs: 90 * DAY_MS };
  return issueFirstKey(ledger.db.api, orgId, key);
}

async function newKey(orgId: string, scopes: readonly string[] = DEFAULT_SCOPES) {
  const { id, secretHash } = draw();
  const key = { id, secretHash, scopes, projectId: null, name: 'key', lifetimeMs: 90 * DAY_MS };
  await createApiKey(ledger.db.api, orgId, key);
  return { id, secretHash };
}

const rowOf = async (id: string) => (await ledger.db.api.query('SELECT * FROM millrace.clients WHERE org_id = $1', [id])).rows[0];

const found = async (id: string) => (await findApiKeys(ledger.db.api, [id]))[0];

describe('a client', () => {
  it('is an org that may have a first key, and says when it was made [FR-05.12]', async () => {
    const id = await newClient();
    const client = await findClient(ledger.db.api, id);
    expect(client).toEqual({ createdAt: expect.any(Date), hadKey: false, requestsPerMinute: null });
    expect(await findClient(ledger.db.api, randomUUID())).toBeNull();
  });

  it('does not change by anything that is done with its keys, but for the mark that the first was issued [FR-05.13]', async () => {
    const id = await newClient();
    const { first_key_issued_at: before, ...made } = await rowOf(id);
    expect(before).toBeNull();
    const first = await firstKey(id);
    const { first_key_issued_at: marked, ...after } = await rowOf(id);
    expect(after).toEqual(made);
    expect(marked).toBeInstanceOf(Date);
    const next = draw();
    const rotation = { oldId: first?.keyId as string, id: next.id, secretHash: next.secretHash, lifetimeMs: DAY_MS };
    await rotateClientKey(ledger.db.api, id, rotation);
    await revokeClientKey(ledger.db.api, { orgId: id, id: next.id, byId: next.id });
    expect(await rowOf(id)).toEqual({ ...made, first_key_issued_at: marked });
  });

  it('that an operator made, or gave a key, has had its first key', async () => {
    expect((await findClient(ledger.db.api, await ledger.newOrg()))?.hadKey).toBe(true);
    const id = await newClient();
    await newKey(id);
    expect((await findClient(ledger.db.api, id))?.hadKey).toBe(true);
    expect(await firstKey(id)).toBeNull();
  });
});

describe('the first key', () => {
  it('is issued once, however many ask for it at once [FR-07.11]', async () => {
    const id = await newClient();
    const issued = await Promise.all(Array.from({ length: 8 }, () => firstKey(id)));
    expect(issued.filter((key) => key !== null)).toHaveLength(1);
    const { rows } = await ledger.db.api.query('SELECT id FROM millrace.api_keys WHERE org_id = $1', [id]);
    expect(rows).toHaveLength(1);
  });
});

describe('a key that is rotated or renewed', () => {
  it('has one successor, which may do what it could and no more', async () => {
    const orgId = await newClient();
    const { id } = await newKey(orgId, ['jobs:write']);
    const rotate = () => {
      const next = draw();
      return rotateClientKey(ledger.db.api, orgId, { oldId: id, ...next, lifetimeMs: DAY_MS });
    };
    const made = (await Promise.all([rotate(), rotate(), rotate()])).filter((key) => key !== null);
    expect(made).toHaveLength(1);
    expect(await found(made[0]?.keyId as string)).toMatchObject({ orgId, scopes: ['jobs:write'], isRevoked: false });
    expect(await found(id)).toMatchObject({ isRevoked: true });
  });

  it('takes another secret once for each that it had [FR-07.12]', async () => {
    const orgId = await newClient();
    const { id, secretHash } = await newKey(orgId);
    const renew = () => {
      const next = formatApiKeyWithId(id, randomBytes(32));
      const params = { id, oldHash: secretHash, newHash: next.secretHash, lifetimeMs: DAY_MS };
      return renewClientKey(ledger.db.api, orgId, params).then((renewed) => ({ renewed, next }));
    };
    const winners = (await Promise.all([renew(), renew(), renew()])).filter(({ renewed }) => renewed !== null);
    expect(winners).toHaveLength(1);
    expect(winners[0]?.renewed).toMatchObject({ keyId: id });
    expect((await found(id))?.secretHash).toEqual(winners[0]?.next.secretHash);
  });
});

describe('a key', () => {
  it('ends keys that can do no more than it, of its own org [FR-07.13]', async () => {
    const orgId = await newClient();
    const me = await newKey(orgId, ['jobs:write', 'jobs:read']);
    const lesser = await newKey(orgId, ['jobs:read']);
    const greater = await newKey(orgId, ['jobs:read', 'operator']);
    const foreign = await newKey(await newClient());
    const revoke = (id: string) => revokeClientKey(ledger.db.api, { orgId, id, byId: me.id });
    expect(await Promise.all([revoke(lesser.id), revoke(greater.id), revoke(foreign.id)])).toEqual([true, false, false]);
    expect(await found(lesser.id)).toMatchObject({ isRevoked: true });
    expect(await found(greater.id)).toMatchObject({ isRevoked: false });
    expect(await found(foreign.id)).toMatchObject({ isRevoked: false });
  });

  it('is kept while it is active, and 90 days after it was revoked [FR-15.19] [FR-15.20]', async () => {
    const orgId = await newClient();
    const [kept, revoked] = [await newKey(orgId), await newKey(orgId)];
    const prune = () => pruneAccess(ledger.db.maintenance, { revokedKeysMs: 90 * DAY_MS, limit: 100 });
    await revokeClientKey(ledger.db.api, { orgId, id: revoked.id, byId: revoked.id });
    await ledger.moveClock(89 * DAY_MS);
    await prune();
    expect(await found(revoked.id)).toMatchObject({ isRevoked: true });
    await ledger.moveClock(2 * DAY_MS);
    await prune();
    expect(await found(revoked.id)).toBeUndefined();
    expect(await found(kept.id)).toBeDefined();
  });
});

describe('a reply to a creation', () => {
  const reply = (scope: string, text: string) => ({
    ...{ scope, key: 'k', fingerprint: text, reply: { text }, lifetimeMs: DAY_MS },
  });

  it('is kept for the first who asks with a key; the others read it until it expires', async () => {
    const scope = randomUUID();
    const claims = ['a', 'b', 'c'].map((text) => inTransaction(ledger.db.api, (client) => claimReply(client, reply(scope, text))));
    expect((await Promise.all(claims)).filter(Boolean)).toHaveLength(1);
    const kept = await findReply(ledger.db.api, { scope, key: 'k' });
    expect(kept?.reply).toEqual({ text: kept?.fingerprint });
    await ledger.moveClock(DAY_MS + 1);
    expect(await findReply(ledger.db.api, { scope, key: 'k' })).toBeNull();
    expect(await claimReply(ledger.db.api, reply(scope, 'd'))).toBe(true);
  });

  it('makes room when the creation fails', async () => {
    const scope = randomUUID();
    const failing = inTransaction(ledger.db.api, async (client) => {
      await claimReply(client, reply(scope, 'a'));
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    expect(await claimReply(ledger.db.api, reply(scope, 'b'))).toBe(true);
  });
});

describe('a quota', () => {
  it('counts every request of a UTC day, and begins anew with the next', async () => {
    await moveToMidday(ledger);
    const orgId = await ledger.newOrg();
    const use = async (wanted: number) => (await useQuota(ledger.db.api, [{ orgId, wanted }]))[0];
    expect(await use(3)).toMatchObject({ orgId, used: 3 });
    const uses = await Promise.all(Array.from({ length: 20 }, () => use(1)));
    expect(uses.map((each) => each?.used).sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 4),
    );
    const { endsInMs } = uses[0] as { endsInMs: number };
    expect(endsInMs).toBeGreaterThan(0);
    expect(endsInMs).toBeLessThanOrEqual(DAY_MS);
    await ledger.moveClock(Math.ceil(endsInMs) + 1_000);
    expect(await use(1)).toMatchObject({ used: 1 });
    expect(await useQuota(ledger.db.api, [{ orgId: randomUUID(), wanted: 1 }])).toEqual([]);
  });
});

describe('the depth of the queue', () => {
  it('counts the waiting jobs of one type, no further than asked', async () => {
    const type = `type-${randomUUID()}`;
    for (let job = 0; job < 3; job++) await ledger.submitOne({ type });
    await ledger.submitOne({ type, job: { runAfterMs: 60_000 } });
    const depth = (atMost: number) => depthByOrg(ledger.db.api, { queue: 'q:default', jobType: type, atMost }).then(({ all }) => all);
    expect([await depth(100), await depth(2)]).toEqual([3, 2]);
  });
});
