import { isApiKeyId } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';
import { revokeClientKey as endKey, findClientKey } from '../../ledger/access/client-keys.ts';
import { noSuchKey } from './client-errors.ts';
import type { Caller, ExecutionContext } from './context.ts';
import { requireOwnClient } from './require-own-client.ts';
import { keyWork, traced } from './traced.ts';

export type RevokeClientKeyParams = { caller: Caller; clientId: string; keyId: string };

/** Ends a key for good, also the one that asks. Its jobs go on. Revoking again changes nothing. */
export function revokeClientKey(c: ExecutionContext, params: RevokeClientKeyParams): Promise<{ revoked: true }> {
  const { caller, clientId, keyId } = params;
  return traced(c, keyWork('key.revoke', caller, { client_id: clientId, key_id: keyId }), () => revoke(c, params));
}

async function revoke(
  c: ExecutionContext,
  { caller, clientId, keyId }: RevokeClientKeyParams,
): Promise<{ revoked: true }> {
  await requireOwnClient(c, caller, clientId);
  if (!isApiKeyId(keyId)) throw noSuchKey(keyId);
  const { api } = c.engine.database;
  if (await endKey(api, { orgId: caller.clientId, id: keyId, byId: caller.keyId })) return { revoked: true };
  if ((await findClientKey(api, caller.clientId, keyId)) === null) throw noSuchKey(keyId);
  const message = 'The key may do more than the one that asks; revoke it with a key that has its scopes.';
  throw new AppError('FORBIDDEN', { message, details: [{ field: 'key_id', code: 'MISSING_SCOPE', message }] });
}
