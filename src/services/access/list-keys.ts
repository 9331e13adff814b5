import { type Owner, reaches } from '../../core/owner.ts';
import { type ApiKeyInfo, listApiKeys } from '../../ledger/access/api-keys.ts';
import type { Database } from '../../ledger/driver/database.ts';

export type KeyView = Omit<ApiKeyInfo, 'isExpired'> & { readonly status: 'active' | 'expired' | 'revoked' };

/** The keys of an org or of one project without their secrets, oldest first. */
export async function listKeys(database: Database, owner: Owner): Promise<KeyView[]> {
  const keys = await listApiKeys(database.api, owner.orgId);
  return keys
    .filter((key) => reaches(owner, key))
    .map(({ isExpired, ...key }) => ({
      ...key,
      status: key.revokedAt !== null ? 'revoked' : isExpired ? 'expired' : 'active',
    }));
}
