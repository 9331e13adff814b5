import { randomBytes } from 'node:crypto';
import { API_KEY_SECRET_BYTES, formatApiKeyWithId } from '../../core/api-key.ts';
import { findClientKey, renewClientKey } from '../../ledger/access/client-keys.ts';
import { endedKey, keyConflict, noSuchKey } from './client-errors.ts';
import type { Caller, ExecutionContext } from './context.ts';
import type { KeyGrant } from './issue-key.ts';
import { requireOwnClient } from './require-own-client.ts';
import { keyWork, traced } from './traced.ts';

export type RenewKeyParams = {
  caller: Caller;
  clientId: string;
  /** Of the secret that the caller showed: of several who renew with it, one wins. */
  secretHash: Uint8Array;
};

/** Gives the key that asks another secret and a new lifetime. The old secret ends. */
export function renewKey(c: ExecutionContext, params: RenewKeyParams): Promise<KeyGrant> {
  const { caller, clientId } = params;
  return traced(c, keyWork('key.renew', caller, { client_id: clientId }), () => renew(c, params));
}

async function renew(c: ExecutionContext, { caller, clientId, secretHash }: RenewKeyParams): Promise<KeyGrant> {
  await requireOwnClient(c, caller, clientId);
  const { keyId } = caller;
  const next = formatApiKeyWithId(keyId, randomBytes(API_KEY_SECRET_BYTES));
  const renewed = await renewClientKey(c.engine.database.api, caller.clientId, {
    id: keyId,
    oldHash: secretHash,
    newHash: next.secretHash,
    lifetimeMs: c.settings.keyLifetimeMs,
  });
  if (renewed === null) throw await whyNot(c, caller);
  return { ...renewed, isNew: true, apiKey: next.key };
}

async function whyNot({ engine }: ExecutionContext, { clientId, keyId }: Caller): Promise<Error> {
  const found = await findClientKey(engine.database.api, clientId, keyId);
  if (found === null) return noSuchKey(keyId);
  if (!found.isRevoked && !found.isExpired) return keyConflict('Another call renewed the key a moment ago.');
  return endedKey(found.isRevoked ? 'REVOKED' : 'EXPIRED');
}
