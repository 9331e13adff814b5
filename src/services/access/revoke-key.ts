import { isApiKeyId } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';
import { findApiKeys, revokeApiKey } from '../../ledger/access/api-keys.ts';
import type { Database } from '../../ledger/driver/database.ts';

export type RevokeKeyParams = {
  /** Only a key of this org. Left out by whoever may act on all orgs. */
  orgId?: string;
  keyId: string;
};

/** Ends a key for good, on every process within seconds. Jobs that it submitted go on. Revoking again changes nothing. */
export async function revokeKey(
  database: Database,
  { orgId, keyId }: RevokeKeyParams,
): Promise<{ id: string; orgId: string; revokedAt: Date }> {
  const owner = orgId ?? (await ownerOf(database, keyId));
  const revokedAt = owner === null || !isApiKeyId(keyId) ? null : await revokeApiKey(database.api, owner, keyId);
  if (owner === null || revokedAt === null) {
    throw new AppError('NOT_FOUND', { message: `There is no key ${keyId}. See "millrace keys list".` });
  }
  return { id: keyId, orgId: owner, revokedAt };
}

async function ownerOf(database: Database, keyId: string): Promise<string | null> {
  if (!isApiKeyId(keyId)) return null;
  const [found] = await findApiKeys(database.api, [keyId]);
  return found?.orgId ?? null;
}
