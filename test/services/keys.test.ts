import { describe, expect, it } from 'vitest';
import { API_KEY_SCOPES, DEFAULT_SCOPES, parseApiKey } from '../../src/core/api-key.ts';
import { revokeApiKey, touchApiKeys } from '../../src/ledger/access/api-keys.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { createOrg, requireOrg } from '../../src/services/access/create-org.ts';
import { listKeys } from '../../src/services/access/list-keys.ts';
import { revokeKey } from '../../src/services/access/revoke-key.ts';
import { useLedger } from '../ledger/fixture.ts';
import { newProject } from '../ledger/new-project.ts';

const ledger = useLedger();
const DAY_MS = 86_400_000;

describe('orgs', () => {
  it('are created once for each slug, with their own limit if one is given', async () => {
    const made = await createOrg(ledger.db, { slug: 'acme', requestsPerMinute: 7 });
    expect(await requireOrg(ledger.db, { slug: 'acme' })).toEqual(made);
    await expect(createOrg(ledger.db, { slug: 'acme' })).rejects.toMatchObject({ code: 'CONFLICT' });
    const plain = await createOrg(ledger.db, { slug: 'plain' });
    expect(plain).toMatchObject({ slug: 'plain', requestsPerMinute: null });
    expect(plain.id).not.toBe(made.id);
  });

  it.each(['', 'Acme', '-acme', 'a b', 'ä', 'x'.repeat(101)])('%j is no slug', async (slug) => {
    await expect(createOrg(ledger.db, { slug })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });

  it("of the system are nobody else's: none can be made, and its own gets no key", async () => {
    await expect(createOrg(ledger.db, { slug: 'millrace.mine' })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    const { id } = await requireOrg(ledger.db, { slug: 'millrace.system' });
    await expect(createKey(ledger.db, { orgId: id })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });

  it('that were never created are not found', async () => {
    await expect(requireOrg(ledger.db, { slug: 'nobody' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('keys', () => {
  it('live 90 days and may submit, read and cancel by default', async () => {
    const orgId = await ledger.newOrg();
    const key = await createKey(ledger.db, { orgId });
    expect(key).toMatchObject({ orgId, projectId: null, name: 'api key', scopes: DEFAULT_SCOPES });
    expect(key.expiresAt.getTime() - key.createdAt.getTime()).toBe(90 * DAY_MS);
  });

  it('are stored as a hash: the ledger holds the secret nowhere', async () => {
    const orgId = await ledger.newOrg();
    const { id, key } = await createKey(ledger.db, { orgId, scopes: API_KEY_SCOPES });
    const { rows } = await ledger.db.api.query('SELECT k.*, k::text AS all FROM millrace.api_keys k WHERE id = $1', [id]);
    expect(rows[0].secret_hash).toEqual(Buffer.from(parseApiKey(key)?.secretHash ?? []));
    const secret = key.split('_')[2] as string;
    expect(rows[0].all).not.toContain(secret.slice(0, 12));
    expect(JSON.stringify(await listKeys(ledger.db, { projectId: null, orgId }))).not.toContain(secret.slice(0, 12));
  });

  it('are listed for their own org, with what became of them', async () => {
    const [orgId, otherOrg] = [await ledger.newOrg(), await ledger.newOrg()];
    const projectId = await newProject(ledger.db, orgId);
    const active = await createKey(ledger.db, { orgId, name: 'active', projectId, scopes: ['jobs:read'] });
    const revoked = await createKey(ledger.db, { orgId, name: 'revoked' });
    const expired = await createKey(ledger.db, { orgId, name: 'expired', lifetimeMs: 1_000 });
    await createKey(ledger.db, { orgId: otherOrg });
    await revokeKey(ledger.db, { keyId: revoked.id });
    await ledger.moveClock(2_000);
    const keys = await listKeys(ledger.db, { projectId: null, orgId });
    expect(keys.map(({ id, status }) => [id, status])).toEqual([
      [active.id, 'active'],
      [revoked.id, 'revoked'],
      [expired.id, 'expired'],
    ]);
    expect(keys[0]).toMatchObject({
      name: 'active',
      projectId,
      scopes: ['jobs:read'],
      lastUsedAt: null,
      revokedAt: null,
    });
  });

  it.each([
    ['an unknown scope', { scopes: ['jobs:reed'] }, 'scopes', 'jobs:read'],
    ['no scope', { scopes: [] }, 'scopes', 'at least one'],
    ['no name', { name: '' }, 'name', '1 to 100'],
    ['a project that is no UUID', { projectId: 'x' }, 'projectId', 'UUID'],
    ['no lifetime', { lifetimeMs: 0 }, 'expires', 'one second'],
    ['a lifetime without end', { lifetimeMs: Number.POSITIVE_INFINITY }, 'expires', 'ten years'],
  ])('with %s are refused', async (_, wrong, field, says) => {
    const made = createKey(ledger.db, { orgId: await ledger.newOrg(), ...wrong });
    await expect(made).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
      details: [{ field, message: expect.stringContaining(says) }],
    });
  });

  it('revoked again keep the first time; the last active one may be revoked', async () => {
    const orgId = await ledger.newOrg();
    const { id } = await createKey(ledger.db, { orgId });
    const first = await revokeKey(ledger.db, { keyId: id });
    await ledger.moveClock(60_000);
    expect(await revokeKey(ledger.db, { keyId: id })).toEqual({ id, orgId, revokedAt: first.revokedAt });
  });

  it('of another org, unknown or malformed cannot be revoked', async () => {
    const { id } = await createKey(ledger.db, { orgId: await ledger.newOrg() });
    const otherOrg = await ledger.newOrg();
    expect(await revokeApiKey(ledger.db.api, otherOrg, id)).toBeNull();
    for (const keyId of ['0000000000000', 'what']) {
      await expect(revokeKey(ledger.db, { keyId })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    }
  });

  it('note their use at most once a minute', async () => {
    const orgId = await ledger.newOrg();
    const { id } = await createKey(ledger.db, { orgId });
    const lastUse = async () => (await listKeys(ledger.db, { projectId: null, orgId }))[0]?.lastUsedAt?.getTime();
    await touchApiKeys(ledger.db.api, [id]);
    const first = await lastUse();
    await ledger.moveClock(30_000);
    await touchApiKeys(ledger.db.api, [id]);
    expect(await lastUse()).toBe(first);
    await ledger.moveClock(31_000);
    await touchApiKeys(ledger.db.api, [id]);
    expect(await lastUse()).toBeGreaterThan(first as number);
  });
});
