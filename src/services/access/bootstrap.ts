import { randomBytes, randomUUID } from 'node:crypto';
import { chown, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { API_KEY_SCOPES } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';
import { haveApiKeys } from '../../ledger/access/api-keys.ts';
import { createOrg, findOrg } from '../../ledger/access/orgs.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { type CreatedKey, createKey } from './create-key.ts';

export type FirstKey = CreatedKey & {
  readonly orgSlug: string;
  /** The file that contains the key; null without a data folder. */
  readonly file: string | null;
};

const FIRST_ORG = 'default';
const KEY_FILE = 'api-key';

/**
 * Creates the org `default` and a key with every scope, if the database has no key yet. The key is saved in the data folder,
 * readable only by its owner. Returns null if there is a key already. Of several concurrent processes, one creates the key.
 */
export async function createFirstOrgAndKey(
  database: Database,
  { home, lifetimeMs }: { home: string | null; lifetimeMs?: number },
): Promise<FirstKey | null> {
  return inTransaction(database.maintenance, async (client) => {
    if (await haveApiKeys(client)) return null;
    const orgId = await firstOrg(client);
    const created = await createKey({ api: client }, { orgId, name: 'first key', scopes: API_KEY_SCOPES, lifetimeMs });
    // Save the key before the commit. If that fails, the next start must be able to create a key again.
    const file = home === null ? null : await saveKey(home, created.key);
    return { ...created, orgSlug: FIRST_ORG, file };
  });
}

async function firstOrg(client: Queryable): Promise<string> {
  await createOrg(client, { id: randomUUID(), slug: FIRST_ORG });
  const org = await findOrg(client, FIRST_ORG);
  if (org === null) throw new AppError('INTERNAL_ERROR', { message: `The org "${FIRST_ORG}" was not created.` });
  return org.id;
}

/** Writes a temporary file and renames it, so that a reader never sees a partial key. */
async function saveKey(home: string, key: string): Promise<string> {
  const file = join(home, KEY_FILE);
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    await writeFile(draft, `${key}\n`, { mode: 0o600, flag: 'wx' });
    if (process.getuid?.() === 0) {
      const owner = await stat(home);
      if (owner.uid !== 0) await chown(draft, owner.uid, owner.gid);
    }
    await rename(draft, file);
    return file;
  } catch (cause) {
    await rm(draft, { force: true });
    throw new AppError('HOME_UNUSABLE', {
      message: `The first API key cannot be saved as ${file}. Check the permissions of the folder.`,
      cause,
    });
  }
}
