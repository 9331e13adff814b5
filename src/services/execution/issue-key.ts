import { randomBytes } from 'node:crypto';
import { API_KEY_RANDOM_BYTES, DEFAULT_SCOPES, formatApiKey } from '../../core/api-key.ts';
import { isUuid } from '../../core/ids.ts';
import { findClientKey, type IssuedKey, issueFirstKey, rotateClientKey } from '../../ledger/access/client-keys.ts';
import { findClient } from '../../ledger/access/clients.ts';
import { endedKey, keyConflict, missingKey, noSuchClient, noSuchKey } from './client-errors.ts';
import type { Caller, ExecutionContext } from './context.ts';
import { createOnce, findRepeat } from './create-once.ts';
import { requireOwnClient } from './require-own-client.ts';
import { requireRegistration } from './require-registration.ts';
import { keyWork, traced } from './traced.ts';

export type IssueKeyParams = {
  clientId: string;
  /** Null: whoever asks showed no key. */
  caller: Caller | null;
  rotate: boolean;
  idempotencyKey?: string;
  bootstrapToken?: string;
};

/** `apiKey` is the only copy of the secret there is; null where the key was issued before. */
export type KeyGrant = IssuedKey & { readonly isNew: boolean; readonly apiKey: string | null };

const KEY_NAME = 'client key';

/**
 * The first key of a client needs no key. From then on its keys speak for it: one is shown again, without its secret, or
 * makes way for a new one.
 */
export function issueKey(c: ExecutionContext, params: IssueKeyParams): Promise<KeyGrant> {
  const { caller, clientId, rotate: isRotation } = params;
  const work = keyWork(isRotation ? 'key.rotate' : 'key.create', caller, { client_id: clientId });
  return traced(c, work, () => issue(c, params));
}

async function issue(c: ExecutionContext, params: IssueKeyParams): Promise<KeyGrant> {
  const { caller } = params;
  if (caller === null) return issueFirst(c, params);
  await requireOwnClient(c, caller, params.clientId);
  return params.rotate ? rotate(c, caller, params) : showAgain(c, caller, params);
}

async function issueFirst(c: ExecutionContext, params: IssueKeyParams): Promise<KeyGrant> {
  const { clientId, bootstrapToken } = params;
  const { database } = c.engine;
  const client = isUuid(clientId) ? await findClient(database.api, clientId) : null;
  if (client === null) throw noSuchClient(clientId);
  if (client.hadKey) throw missingKey();
  requireRegistration(c.settings, bootstrapToken);
  const { id, key, secretHash } = formatApiKey(randomBytes(API_KEY_RANDOM_BYTES));
  const first = { id, secretHash, name: KEY_NAME, scopes: DEFAULT_SCOPES, lifetimeMs: c.settings.keyLifetimeMs };
  const lost = () => keyConflict('Another call got the first key of this client a moment ago.');
  const made = await createOnce(database, {
    ...creationOf(params, id),
    async create(db) {
      const issued = await issueFirstKey(db, clientId, first);
      if (issued === null) throw lost();
      return issued;
    },
  });
  if (made.kind === 'repeated') throw lost();
  return { ...made.value, isNew: true, apiKey: key };
}

async function rotate(c: ExecutionContext, caller: Caller, params: IssueKeyParams): Promise<KeyGrant> {
  const { clientId, keyId } = caller;
  const { database } = c.engine;
  const { id, key, secretHash } = formatApiKey(randomBytes(API_KEY_RANDOM_BYTES));
  const next = { oldId: keyId, id, secretHash, lifetimeMs: c.settings.keyLifetimeMs };
  const made = await createOnce(database, {
    ...creationOf(params, id),
    async create(db) {
      const issued = await rotateClientKey(db, clientId, next);
      if (issued !== null) return issued;
      const old = await findClientKey(db, clientId, keyId);
      if (old?.isExpired === true && !old.isRevoked) throw endedKey('EXPIRED');
      throw keyConflict('The key was rotated or revoked a moment ago.');
    },
  });
  if (made.kind === 'repeated') return show(c, clientId, made.reply.keyId as string);
  return { ...made.value, isNew: true, apiKey: key };
}

async function showAgain(c: ExecutionContext, caller: Caller, params: IssueKeyParams): Promise<KeyGrant> {
  const reply = await findRepeat(c.engine.database, creationOf(params, caller.keyId));
  return show(c, caller.clientId, (reply?.keyId as string | undefined) ?? caller.keyId);
}

async function show(c: ExecutionContext, clientId: string, keyId: string): Promise<KeyGrant> {
  const found = await findClientKey(c.engine.database.api, clientId, keyId);
  if (found === null) throw noSuchKey(keyId);
  const { createdAt, expiresAt } = found;
  return { keyId, createdAt, expiresAt, isNew: false, apiKey: null };
}

const creationOf = ({ clientId, idempotencyKey, rotate: isRotation }: IssueKeyParams, keyId: string) => ({
  scope: `keys:${clientId.toLowerCase()}`,
  key: idempotencyKey,
  request: { rotate: isRotation },
  reply: { keyId },
});
