import { randomBytes } from 'node:crypto';
import {
  API_KEY_RANDOM_BYTES,
  API_KEY_SECRET_BYTES,
  DEFAULT_SCOPES,
  formatApiKey,
  formatApiKeyWithId,
  isApiKeyId,
} from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import {
  findClientKey,
  type IssuedKey,
  issueFirstKey,
  renewClientKey,
  revokeClientKey,
  rotateClientKey,
} from '../../ledger/access/client-keys.ts';
import { findClient } from '../../ledger/access/clients.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { endedKey, keyConflict, missingKey, noSuchClient, noSuchKey, requireOwnClient, requireRegistration } from './client-checks.ts';
import { actionOf, type Caller, type ExecutionContext } from './context.ts';
import { createOnce, findRepeat } from './create-once.ts';
import { keyWork, traced } from './traced.ts';

/** `apiKey` contains the secret, which cannot be read again; null for a key that was issued before. */
export type KeyGrant = IssuedKey & { readonly isNew: boolean; readonly apiKey: string | null };

const KEY_NAME = 'client key';
/** The actor of a client that fetches its first key, which it does without one. */
const REGISTRATION = 'registration';

export type IssueKeyRequest = {
  readonly clientId: string;
  /** Null: the request has no API key. */
  readonly caller: Caller | null;
  readonly rotate: boolean;
  readonly idempotencyKey?: string;
  readonly bootstrapToken?: string;
};

/**
 * The first key of a client is issued without a key. Later requests need a key of the client. They show that key again
 * without its secret, or replace it with a new one.
 */
export function issueKey(c: ExecutionContext, request: IssueKeyRequest): Promise<KeyGrant> {
  const { caller, clientId } = request;
  return traced(c, keyWork(request.rotate ? 'key.rotate' : 'key.create', caller, { client_id: clientId }), async () => {
    if (caller === null) return issueFirst(c, request);
    await requireOwnClient(c, caller, clientId);
    return request.rotate ? rotate(c, caller, request) : showAgain(c, caller, request);
  });
}

async function issueFirst(c: ExecutionContext, request: IssueKeyRequest): Promise<KeyGrant> {
  const { clientId, bootstrapToken } = request;
  const { database } = c.engine;
  const client = isUuid(clientId) ? await findClient(database.api, clientId) : null;
  if (client === null) throw noSuchClient(clientId);
  if (client.hadKey) throw missingKey();
  requireRegistration(c.settings, bootstrapToken);
  const { id, key, secretHash } = formatApiKey(randomBytes(API_KEY_RANDOM_BYTES));
  const first = { id, secretHash, name: KEY_NAME, scopes: DEFAULT_SCOPES, lifetimeMs: c.settings.keyLifetimeMs };
  const lost = () => keyConflict('Another request received the first key of this client a moment ago.');
  const made = await createOnce(database, {
    ...creationOf(request, id),
    async create(db) {
      const issued = await issueFirstKey(db, clientId, first);
      if (issued === null) throw lost();
      const requester = { actor: `system:${REGISTRATION}`, requestId: null };
      await recordActions(db, [{ orgId: clientId, event: 'key.created', requester, details: { key_id: id } }]);
      return issued;
    },
  });
  if (made.kind === 'repeated') throw lost();
  return { ...made.value, isNew: true, apiKey: key };
}

async function rotate(c: ExecutionContext, caller: Caller, request: IssueKeyRequest): Promise<KeyGrant> {
  const { clientId, keyId } = caller;
  const { id, key, secretHash } = formatApiKey(randomBytes(API_KEY_RANDOM_BYTES));
  const next = { oldId: keyId, id, secretHash, lifetimeMs: c.settings.keyLifetimeMs };
  const made = await createOnce(c.engine.database, {
    ...creationOf(request, id),
    async create(db) {
      const issued = await rotateClientKey(db, clientId, next);
      if (issued !== null) {
        await recordActions(db, [
          actionOf(caller, 'key.created', { key_id: id, replaces: keyId }),
          actionOf(caller, 'key.revoked', { key_id: keyId }),
        ]);
        return issued;
      }
      const old = await findClientKey(db, clientId, keyId);
      if (old?.isExpired === true && !old.isRevoked) throw endedKey('EXPIRED');
      throw keyConflict('The key was rotated or revoked a moment ago.');
    },
  });
  if (made.kind === 'repeated') return show(c, clientId, made.reply.keyId as string);
  return { ...made.value, isNew: true, apiKey: key };
}

async function showAgain(c: ExecutionContext, caller: Caller, request: IssueKeyRequest): Promise<KeyGrant> {
  const reply = await findRepeat(c.engine.database, creationOf(request, caller.keyId));
  return show(c, caller.clientId, (reply?.keyId as string | undefined) ?? caller.keyId);
}

async function show(c: ExecutionContext, clientId: string, keyId: string): Promise<KeyGrant> {
  const found = await findClientKey(c.engine.database.reads.of(clientId), clientId, keyId);
  if (found === null) throw noSuchKey(keyId);
  const { createdAt, expiresAt } = found;
  return { keyId, createdAt, expiresAt, isNew: false, apiKey: null };
}

const creationOf = ({ clientId, idempotencyKey, rotate: isRotation }: IssueKeyRequest, keyId: string) => ({
  scope: `keys:${clientId.toLowerCase()}`,
  key: idempotencyKey,
  request: { rotate: isRotation },
  reply: { keyId },
});

export type RenewKeyRequest = {
  readonly caller: Caller;
  readonly clientId: string;
  /** The hash of the secret that the caller sent. Of several concurrent renewals with it, one succeeds. */
  readonly secretHash: Uint8Array;
};

/** Gives the caller's key a new secret and a new lifetime. The old secret stops working. */
export function renewKey(c: ExecutionContext, request: RenewKeyRequest): Promise<KeyGrant> {
  const { caller, clientId, secretHash } = request;
  return traced(c, keyWork('key.renew', caller, { client_id: clientId }), async () => {
    await requireOwnClient(c, caller, clientId);
    const next = formatApiKeyWithId(caller.keyId, randomBytes(API_KEY_SECRET_BYTES));
    const renewal = { id: caller.keyId, oldHash: secretHash, newHash: next.secretHash, lifetimeMs: c.settings.keyLifetimeMs };
    const renewed = await inTransaction(c.engine.database.api, async (client) => {
      const done = await renewClientKey(client, caller.clientId, renewal);
      if (done !== null) await recordActions(client, [actionOf(caller, 'key.renewed', { key_id: caller.keyId })]);
      return done;
    });
    if (renewed === null) throw await renewalError(c, caller);
    return { ...renewed, isNew: true, apiKey: next.key };
  });
}

async function renewalError({ engine }: ExecutionContext, { clientId, keyId }: Caller): Promise<AppError> {
  const found = await findClientKey(engine.database.reads.of(clientId), clientId, keyId);
  if (found === null) return noSuchKey(keyId);
  if (!found.isRevoked && !found.isExpired) return keyConflict('Another request renewed the key a moment ago.');
  return endedKey(found.isRevoked ? 'REVOKED' : 'EXPIRED');
}

export type RevokeKeyRequest = { readonly caller: Caller; readonly clientId: string; readonly keyId: string };

/** Revokes a key, which may be the caller's own. Its jobs keep running. Revoking it again changes nothing. */
export function revokeKeyOfClient(c: ExecutionContext, request: RevokeKeyRequest): Promise<{ revoked: true }> {
  const { caller, clientId, keyId } = request;
  return traced(c, keyWork('key.revoke', caller, { client_id: clientId, key_id: keyId }), async () => {
    await requireOwnClient(c, caller, clientId);
    if (!isApiKeyId(keyId)) throw noSuchKey(keyId);
    const { api } = c.engine.database;
    const revoked = { orgId: caller.clientId, id: keyId, byId: caller.keyId };
    const isRevoked = await inTransaction(api, async (client) => {
      const done = await revokeClientKey(client, revoked);
      if (done) await recordActions(client, [actionOf(caller, 'key.revoked', { key_id: keyId })]);
      return done;
    });
    if (isRevoked) return { revoked: true };
    if ((await findClientKey(api, caller.clientId, keyId)) === null) throw noSuchKey(keyId);
    const message = 'The key has more scopes than the key of this request: use a key that has all of them.';
    throw new AppError('FORBIDDEN', { message, details: [{ field: 'key_id', code: 'MISSING_SCOPE', message }] });
  });
}
