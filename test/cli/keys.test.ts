import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { API_KEY_SCOPES, parseApiKey } from '../../src/core/api-key.ts';
import { KeyAuthenticator } from '../../src/http/shared/key-authenticator.ts';
import { useLedger } from '../ledger/fixture.ts';
import { ask, run } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

type Org = { id: string; slug: string; requestsPerMinute: number | null };
type Key = { id: string; key: string; orgId: string; scopes: string[]; createdAt: string; expiresAt: string };
type Listed = { keys: { id: string; name: string; status: string; revokedAt: string | null }[] };

const DAY_MS = 86_400_000;
const authenticate = ({ key }: Key) => new KeyAuthenticator({ database: ledger.db }).authenticate(`Bearer ${key}`);

async function newOrg(): Promise<Org> {
  return ask<Org>(['orgs', 'create', `org-${randomUUID()}`], here());
}

describe('orgs create', () => {
  it('makes an org once', async () => {
    const first = await run(['orgs', 'create', 'acme', '--requests-per-minute', '50'], here());
    expect(first.code).toBe(0);
    expect(first.stdout).toMatch(/^Org acme has the id [0-9a-f-]{36}\.\nNext: millrace keys create --org acme\n$/);
    const again = await run(['orgs', 'create', 'acme'], here());
    expect(again.code).toBe(1);
    expect(again.stderr).toContain('The org "acme" already exists.');
  });

  it('refuses what is no slug, and a limit that is no number', async () => {
    expect((await run(['orgs', 'create', 'Not A Slug'], here())).code).toBe(1);
    expect((await run(['orgs', 'create', 'good', '--requests-per-minute', 'many'], here())).code).toBe(2);
  });
});

describe('keys create', () => {
  it('shows a key that works, once', async () => {
    const { slug, id: orgId } = await newOrg();
    const { code, stdout, stderr } = await run(['keys', 'create', '--org', slug], here());
    expect(code).toBe(0);
    expect(stderr).toContain('shown only once');
    const [key = ''] = stdout.split('\n');
    expect(parseApiKey(key)).not.toBeNull();
    expect(await authenticate({ key } as Key)).toMatchObject({ orgId, projectId: null });
    expect((await run(['keys', 'list', '--org', slug], here())).stdout).not.toContain(key.slice(17, 40));
  });

  it('gives it the scopes, the project and the lifetime that were asked for', async () => {
    const { slug, id: orgId } = await newOrg();
    const { id: project } = await ask<{ id: string }>(['projects', 'create', 'billing', '--org', slug], here());
    const wishes = ['--name', 'billing', '--scopes', 'jobs:write,jobs:read', '--project', project, '--expires', '30d'];
    const made = await ask<Key>(['keys', 'create', '--org', slug, ...wishes], here());
    expect(made).toMatchObject({ orgId, name: 'billing', scopes: ['jobs:write', 'jobs:read'], projectId: project });
    expect(Date.parse(made.expiresAt) - Date.parse(made.createdAt)).toBe(30 * DAY_MS);
    expect(await authenticate(made)).toMatchObject({ orgId, projectId: project, keyId: made.id });
    const mighty = await ask<Key>(['keys', 'create', '--org', slug, '--scopes', 'all'], here());
    expect(mighty.scopes).toEqual(API_KEY_SCOPES);
    expect(Date.parse(mighty.expiresAt) - Date.parse(mighty.createdAt)).toBe(90 * DAY_MS);
  });

  it.each([
    [['keys', 'create'], 2, 'needs --org SLUG'],
    [['keys', 'create', '--org', 'nobody'], 1, 'There is no org "nobody".'],
    [['keys', 'create', '--org', 'default', '--scopes', 'jobs:reed'], 2, 'jobs:read'],
    [['keys', 'create', '--org', 'default', '--expires', 'soon'], 2, '--expires'],
    [['keys', 'create', '--org', 'default', '--expires', '0s'], 1, 'one second'],
    [['keys', 'create', '--org', 'default', '--project', 'x'], 1, 'UUID'],
    [['keys', 'list'], 2, 'needs --org SLUG'],
    [['keys', 'revoke', '0000000000000'], 1, 'There is no key 0000000000000.'],
  ])('%j is refused', async (args, code, says) => {
    const ended = await run(args, here());
    expect(ended.code).toBe(code);
    expect(ended.stderr).toContain(says);
  });
});

describe('keys revoke and keys list', () => {
  it('end a key, and say what became of each key of the org', async () => {
    const { slug } = await newOrg();
    const [kept, ended] = [
      await ask<Key>(['keys', 'create', '--org', slug, '--name', 'kept'], here()),
      await ask<Key>(['keys', 'create', '--org', slug, '--name', 'ended'], here()),
    ];
    const { code, stdout } = await run(['keys', 'revoke', ended.id], here());
    expect([code, stdout]).toEqual([0, expect.stringMatching(new RegExp(`^Key ${ended.id} is revoked since 20`))]);
    await expect(authenticate(ended)).rejects.toMatchObject({ code: 'FORBIDDEN' });
    expect(await authenticate(kept)).toMatchObject({ keyId: kept.id });
    const { keys } = await ask<Listed>(['keys', 'list', '--org', slug], here());
    expect(keys.map(({ id, name, status }) => [id, name, status])).toEqual([
      [kept.id, 'kept', 'active'],
      [ended.id, 'ended', 'revoked'],
    ]);
    const table = (await run(['keys', 'list', '--org', slug], here())).stdout;
    expect(table).toMatch(/^id +name +status +expires +last used +scopes\n/);
  });

  it('of an org without keys say so', async () => {
    const { slug } = await newOrg();
    expect((await run(['keys', 'list', '--org', slug], here())).stdout).toBe(`Org ${slug} has no keys.\n`);
  });
});
