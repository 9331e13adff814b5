import { type ApiKeyInfo, listApiKeys } from '../../ledger/access/api-keys.ts';
import type { Database } from '../../ledger/driver/database.ts';

export type KeyView = Omit<ApiKeyInfo, 'isExpired'> & { readonly status: 'active' | 'expired' | 'revoked' };

/** The keys of an org without their secrets, oldest first. */
export async function listKeys(database: Database, { orgId }: { orgId: string }): Promise<KeyView[]> {
  const keys = await listApiKeys(database.api, orgId);
  return keys.map(({ isExpired, ...key }) => ({
    ...key,
    status: key.revokedAt !== null ? 'revoked' : isExpired ? 'expired' : 'active',
  }));
}
