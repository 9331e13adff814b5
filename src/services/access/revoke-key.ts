import { isApiKeyId } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { findApiKeys, revokeApiKey } from '../../ledger/access/api-keys.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { AT_CONSOLE } from './requesters.ts';

export type RevokeKeyRequest = {
  readonly keyId: string;
  /** Only a key of this org. Default: of any org. */
  readonly orgId?: string;
  readonly requester?: Requester;
};

/** All processes refuse the key within seconds; its jobs keep running. Revoking again changes nothing. */
export async function revokeKey(
  { api }: Database,
  { keyId, orgId, requester = AT_CONSOLE }: RevokeKeyRequest,
): Promise<{ id: string; orgId: string; revokedAt: Date }> {
  const [found] = isApiKeyId(keyId) ? await findApiKeys(api, [keyId]) : [];
  const owner = found === undefined || (orgId !== undefined && orgId !== found.orgId) ? null : found.orgId;
  const revokedAt = owner === null ? null : await inTransaction(api, (client) => revokeIn(client, { keyId, orgId: owner, requester }));
  if (owner === null || revokedAt === null) {
    throw new AppError('NOT_FOUND', { message: `There is no key ${keyId.slice(0, 100)}. See "millrace keys list".` });
  }
  return { id: keyId, orgId: owner, revokedAt };
}

async function revokeIn(
  client: Parameters<Parameters<typeof inTransaction>[1]>[0],
  { keyId, orgId, requester }: Required<RevokeKeyRequest>,
): Promise<Date | null> {
  const revoked = await revokeApiKey(client, orgId, keyId);
  if (revoked?.isFirst === true) await recordActions(client, [{ orgId, event: 'key.revoked', requester, details: { key_id: keyId } }]);
  return revoked?.at ?? null;
}
