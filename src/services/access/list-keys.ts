import { type Owner, reaches } from '../../core/owner.ts';
import { type ApiKeyInfo, listApiKeyPage, listApiKeys } from '../../ledger/access/api-keys.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { readPageCursor, writePageCursor } from '../../ledger/driver/page-cursor.ts';
import { sealOf } from '../../ledger/driver/seal.ts';

export type KeyView = Omit<ApiKeyInfo, 'isExpired'> & { readonly status: 'active' | 'expired' | 'revoked' };

/** The keys of an org or of one project without their secrets, oldest first. */
export async function listKeys(database: Database, owner: Owner): Promise<KeyView[]> {
  const keys = await listApiKeys(database.reads.of(owner.orgId), owner.orgId);
  return keys.filter((key) => reaches(owner, key)).map(viewOf);
}

/** A page of the keys of an org, oldest first. */
export async function findKeys(
  { api, reads }: Database,
  orgId: string,
  { cursor, limit }: { cursor: string | null; limit: number },
): Promise<{ items: KeyView[]; nextCursor: string | null }> {
  const seal = await sealOf(api);
  const scope = { list: 'API_KEYS', orgId, filter: {} } as const;
  const [createdAt, id] = cursor === null ? [] : (readPageCursor(seal, scope, cursor) as [string, string]);
  const after = createdAt === undefined || id === undefined ? null : { createdAt, id };
  const { keys, next } = await listApiKeyPage(reads.of(orgId), { orgId, after, limit });
  return { items: keys.map(viewOf), nextCursor: next === null ? null : writePageCursor(seal, scope, [next.createdAt, next.id]) };
}

const viewOf = ({ isExpired, ...key }: ApiKeyInfo): KeyView => ({
  ...key,
  status: key.revokedAt !== null ? 'revoked' : isExpired ? 'expired' : 'active',
});
