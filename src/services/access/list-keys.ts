import { type ApiKeyInfo, listApiKeys } from '../../ledger/access/api-keys.ts';
import type { Database } from '../../ledger/driver/database.ts';

export type KeyView = Omit<ApiKeyInfo, 'isExpired'> & { readonly status: 'active' | 'expired' | 'revoked' };

/** The keys of an org, oldest first. None of them can show its secret. */
export async function listKeys(database: Database, orgId: string): Promise<KeyView[]> {
  const keys = await listApiKeys(database.api, orgId);
  return keys.map(({ isExpired, ...key }) => ({
    ...key,
    status: key.revokedAt !== null ? 'revoked' : isExpired ? 'expired' : 'active',
  }));
}
