import type { ApiKeyScope } from '../../core/api-key.ts';
import { textArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { IS_SELF_REGISTERED } from './api-keys.ts';

const ISSUED = 'id AS "keyId", created_at AS "createdAt", expires_at AS "expiresAt"';

const ISSUE_FIRST = statement(
  'issue_first_key',
  `WITH won AS (
     UPDATE millrace.clients c SET first_key_issued_at = millrace.clock()
     WHERE c.org_id = $1::uuid AND c.first_key_issued_at IS NULL
       AND NOT EXISTS (SELECT FROM millrace.api_keys k WHERE k.org_id = $1::uuid)
     RETURNING c.org_id
   )
   INSERT INTO millrace.api_keys (org_id, id, name, secret_hash, scopes, created_at, expires_at)
   SELECT org_id, $2, $3, $4::bytea, $5::text[], millrace.clock(), millrace.clock() + $6::float8 * interval '1 millisecond'
   FROM won RETURNING ${ISSUED}`,
);

const RENEWS: ApiKeyScope = 'keys:renew';

/**
 * When the successor of key `k` ends. A key that a client got by registering starts the configured lifetime again. A key that an
 * operator gave ends when it would have ended. With the scope keys:renew, its own lifetime starts again.
 */
const nextEnd = (lifetimeMs: string): string => `CASE
     WHEN ${IS_SELF_REGISTERED} THEN millrace.clock() + ${lifetimeMs}::float8 * interval '1 millisecond'
     WHEN '${RENEWS}' = ANY (k.scopes) THEN millrace.clock() + (k.expires_at - k.created_at)
     ELSE k.expires_at END`;

// The new key gets the scopes of the old one, and comes from the same source.
const ROTATE = statement(
  'rotate_client_key',
  `WITH ended AS (
     UPDATE millrace.api_keys k SET revoked_at = millrace.clock()
     WHERE k.org_id = $1::uuid AND k.id = $2 AND k.revoked_at IS NULL AND k.expires_at > millrace.clock()
     RETURNING k.org_id, k.project_id, k.name, k.scopes, k.given_by_operator, ${nextEnd('$5')} AS ends_at
   )
   INSERT INTO millrace.api_keys (org_id, id, project_id, name, secret_hash, scopes, created_at, expires_at, given_by_operator)
   SELECT org_id, $3, project_id, name, $4::bytea, scopes, millrace.clock(), ends_at, given_by_operator
   FROM ended RETURNING ${ISSUED}`,
);

const RENEW = statement(
  'renew_client_key',
  `UPDATE millrace.api_keys k SET secret_hash = $4::bytea, created_at = millrace.clock(), expires_at = ${nextEnd('$5')}
   WHERE org_id = $1::uuid AND id = $2 AND secret_hash = $3::bytea AND revoked_at IS NULL AND expires_at > millrace.clock()
   RETURNING ${ISSUED}`,
);

// A key may revoke itself and keys whose scopes it has.
const REVOKE = statement(
  'revoke_client_key',
  `UPDATE millrace.api_keys k SET revoked_at = coalesce(k.revoked_at, millrace.clock())
   FROM millrace.api_keys me
   WHERE k.org_id = $1::uuid AND k.id = $2 AND me.org_id = $1::uuid AND me.id = $3 AND k.scopes <@ me.scopes
     AND (me.project_id IS NULL OR me.project_id IS NOT DISTINCT FROM k.project_id)
   RETURNING k.id`,
);

const FIND = statement(
  'find_client_key',
  `SELECT ${ISSUED}, revoked_at IS NOT NULL AS "isRevoked", expires_at <= millrace.clock() AS "isExpired"
   FROM millrace.api_keys WHERE org_id = $1::uuid AND id = $2`,
);

/** The members of a key that are not secret. */
export type IssuedKey = { keyId: string; createdAt: Date; expiresAt: Date };

export type FirstKey = {
  id: string;
  name: string;
  secretHash: Uint8Array;
  scopes: readonly string[];
  lifetimeMs: number;
};

/** Issues the first key of a client. Returns null if the client has had a key before. */
export async function issueFirstKey(db: Queryable, orgId: string, key: FirstKey): Promise<IssuedKey | null> {
  const { id, name, secretHash, scopes, lifetimeMs } = key;
  const values = [orgId, id, name, Buffer.from(secretHash), textArray(scopes), lifetimeMs];
  return (await run<IssuedKey>(db, ISSUE_FIRST, values))[0] ?? null;
}

export type NextKey = { oldId: string; id: string; secretHash: Uint8Array; lifetimeMs: number };

/** Revokes a key and creates its successor. Returns null if the old key is no longer valid. */
export async function rotateClientKey(db: Queryable, orgId: string, next: NextKey): Promise<IssuedKey | null> {
  const values = [orgId, next.oldId, next.id, Buffer.from(next.secretHash), next.lifetimeMs];
  return (await run<IssuedKey>(db, ROTATE, values))[0] ?? null;
}

export type NextSecret = { id: string; oldHash: Uint8Array; newHash: Uint8Array; lifetimeMs: number };

/** Gives a key another secret and perhaps a new lifetime. Returns null if the key is no longer valid or has another secret. */
export async function renewClientKey(db: Queryable, orgId: string, next: NextSecret): Promise<IssuedKey | null> {
  const values = [orgId, next.id, Buffer.from(next.oldHash), Buffer.from(next.newHash), next.lifetimeMs];
  return (await run<IssuedKey>(db, RENEW, values))[0] ?? null;
}

/** Returns false if the key does not exist or has scopes that the calling key lacks. Revoking again changes nothing. */
export async function revokeClientKey(db: Queryable, { orgId, id, byId }: { orgId: string; id: string; byId: string }): Promise<boolean> {
  return (await run(db, REVOKE, [orgId, id, byId])).length === 1;
}

export type FoundKey = IssuedKey & { isRevoked: boolean; isExpired: boolean };

export async function findClientKey(db: Queryable, orgId: string, id: string): Promise<FoundKey | null> {
  return (await run<FoundKey>(db, FIND, [orgId, id]))[0] ?? null;
}
