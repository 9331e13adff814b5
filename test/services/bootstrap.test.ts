import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { API_KEY_SCOPES, parseApiKey } from '../../src/core/api-key.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { createFirstOrgAndKey } from '../../src/services/access/bootstrap.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { listKeys } from '../../src/services/access/list-keys.ts';
import { useLedger } from '../ledger/fixture.ts';

const ledger = useLedger();
beforeEach(async () => {
  await ledger.db.api.query('DELETE FROM millrace.api_keys');
});

async function newHome(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'millrace-home-'));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  return home;
}

it('makes a key with every scope for the org default, and keeps it where its owner alone can read it', async () => {
  const home = await newHome();
  const first = await createFirstOrgAndKey(ledger.db, { home });
  expect(first).toMatchObject({ orgId: DEFAULT_ORG_ID, orgSlug: 'default', scopes: API_KEY_SCOPES });
  expect(first?.file).toBe(join(home, 'api-key'));
  expect(await readFile(join(home, 'api-key'), 'utf8')).toBe(`${first?.key}\n`);
  expect((await stat(join(home, 'api-key'))).mode & 0o777).toBe(0o600);
  expect(parseApiKey(first?.key ?? '')?.id).toBe(first?.id);
  expect(await readdir(home)).toEqual(['api-key']);
});

it('does nothing on a ledger that has a key, of whatever org', async () => {
  const home = await newHome();
  await createKey(ledger.db, { orgId: await ledger.newOrg() });
  expect(await createFirstOrgAndKey(ledger.db, { home })).toBeNull();
  expect(await readdir(home)).toEqual([]);
});

it('makes one key when several processes start at once', async () => {
  const home = await newHome();
  const made = await Promise.all([1, 2, 3].map(() => createFirstOrgAndKey(ledger.db, { home })));
  const [first, ...others] = made.filter((each) => each !== null);
  expect(others).toEqual([]);
  expect(await listKeys(ledger.db, { projectId: null, orgId: DEFAULT_ORG_ID })).toHaveLength(1);
  expect(await readFile(join(home, 'api-key'), 'utf8')).toBe(`${first?.key}\n`);
});

it('makes the org when it is missing', async () => {
  await ledger.db.api.query(`UPDATE millrace.orgs SET slug = 'renamed' WHERE slug = 'default'`);
  onTestFinished(async () => {
    await ledger.db.api.query(`DELETE FROM millrace.api_keys; DELETE FROM millrace.orgs WHERE slug = 'default';
      UPDATE millrace.orgs SET slug = 'default' WHERE slug = 'renamed'`);
  });
  const first = await createFirstOrgAndKey(ledger.db, { home: null });
  expect(first).toMatchObject({ orgSlug: 'default', file: null });
  expect(first?.orgId).not.toBe(DEFAULT_ORG_ID);
});

it('discards a key that it could not save', async () => {
  const home = join(await newHome(), 'missing');
  await expect(createFirstOrgAndKey(ledger.db, { home })).rejects.toMatchObject({ code: 'HOME_UNUSABLE' });
  expect(await listKeys(ledger.db, { projectId: null, orgId: DEFAULT_ORG_ID })).toEqual([]);
});
