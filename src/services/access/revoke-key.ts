import { isApiKeyId } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';
import { findApiKeys, revokeApiKey } from '../../ledger/access/api-keys.ts';
import type { Database } from '../../ledger/driver/database.ts';

/** Revokes a key of any org. All processes refuse it within seconds; its jobs keep running. Revoking again changes nothing. */
export async function revokeKey(
  { api }: Database,
  { keyId }: { readonly keyId: string },
): Promise<{ id: string; orgId: string; revokedAt: Date }> {
  const [found] = isApiKeyId(keyId) ? await findApiKeys(api, [keyId]) : [];
  const revokedAt = found === undefined ? null : await revokeApiKey(api, found.orgId, keyId);
  if (found === undefined || revokedAt === null) {
    throw new AppError('NOT_FOUND', { message: `There is no key ${keyId}. See "millrace keys list".` });
  }
  return { id: keyId, orgId: found.orgId, revokedAt };
}
