import { FIRST_API_KEY_LOCK, waitForLock } from '../driver/advisory-locks.ts';
import { textArray } from '../driver/binary-array.ts';
import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';

const CREATE = statement(
  'create_api_key',
  `INSERT INTO millrace.api_keys (org_id, id, project_id, name, secret_hash, scopes, created_at, expires_at, given_by_operator)
   VALUES ($1::uuid, $2, $3::uuid, $4, $5::bytea, $6::text[], millrace.clock(),
           millrace.clock() + $7::float8 * interval '1 millisecond', true)
   RETURNING created_at AS "createdAt", expires_at AS "expiresAt"`,
);

/** Whether a client got key `k` by registering, or as the successor of such a key. */
export const IS_SELF_REGISTERED = '(NOT k.given_by_operator AND EXISTS (SELECT FROM millrace.clients c WHERE c.org_id = k.org_id))';

/** All keys of an org stop working when its deletion begins. */
const IS_OF_DELETED_ORG = 'EXISTS (SELECT FROM millrace.orgs o WHERE o.id = k.org_id AND o.deleting_at IS NOT NULL)';

// Looks up by id alone, because the key determines which org calls.
const FIND = statement(
  'find_api_keys',
  `SELECT id, org_id AS "orgId", project_id AS "projectId", secret_hash AS "secretHash", scopes,
     revoked_at IS NOT NULL OR ${IS_OF_DELETED_ORG} AS "isRevoked", extract(epoch FROM expires_at - millrace.clock())::float8 * 1000 AS "expiresInMs",
     ${IS_SELF_REGISTERED} AS "isSelfRegistered"
   FROM millrace.api_keys k WHERE id = ANY ($1::text[])`,
);

const LIST = statement(
  'list_api_keys',
  `SELECT id, org_id AS "orgId", project_id AS "projectId", name, scopes, created_at AS "createdAt", expires_at AS "expiresAt",
     last_used_at AS "lastUsedAt", revoked_at AS "revokedAt", expires_at <= millrace.clock() AS "isExpired"
   FROM millrace.api_keys WHERE org_id = $1::uuid ORDER BY created_at, id`,
);

const PAGE = namedStatement<{ orgId: string; afterAt: string | null; afterId: string; limit: number }, ApiKeyInfo & { place: string }>(
  'list_api_key_page',
  `SELECT id, org_id AS "orgId", project_id AS "projectId", name, scopes, created_at AS "createdAt", expires_at AS "expiresAt",
     last_used_at AS "lastUsedAt", revoked_at AS "revokedAt", expires_at <= millrace.clock() AS "isExpired", created_at::text AS place
   FROM millrace.api_keys WHERE org_id = $orgId::uuid
     AND ($afterAt::text IS NULL OR (created_at, id) > ($afterAt::text::timestamptz, $afterId::text COLLATE "C"))
   ORDER BY created_at, id LIMIT $limit::int4`,
);

const REVOKE = statement(
  'revoke_api_key',
  `WITH found AS (SELECT org_id, id, revoked_at FROM millrace.api_keys WHERE org_id = $1::uuid AND id = $2 FOR UPDATE)
   UPDATE millrace.api_keys k SET revoked_at = coalesce(f.revoked_at, millrace.clock()) FROM found f
   WHERE k.org_id = f.org_id AND k.id = f.id RETURNING k.revoked_at AS at, f.revoked_at IS NULL AS "isFirst"`,
);

// Many processes see the same key. The first one in each minute writes the time.
const TOUCH = statement(
  'touch_api_keys',
  `UPDATE millrace.api_keys SET last_used_at = millrace.clock()
   WHERE id = ANY ($1::text[]) AND (last_used_at IS NULL OR last_used_at < millrace.clock() - interval '1 minute')`,
);

const HAVE_ANY = statement('have_api_keys', 'SELECT EXISTS (SELECT FROM millrace.api_keys) AS found');

const LOCK = statement('lock_first_api_key', `SELECT ${waitForLock(FIRST_API_KEY_LOCK)}`);

export type NewApiKey = {
  id: string;
  projectId: string | null;
  name: string;
  secretHash: Uint8Array;
  scopes: readonly string[];
  lifetimeMs: number;
};

/** Creates a key that an operator gives to an org. */
export async function createApiKey(
  db: Queryable,
  orgId: string,
  { id, projectId, name, secretHash, scopes, lifetimeMs }: NewApiKey,
): Promise<{ createdAt: Date; expiresAt: Date }> {
  const values = [orgId, id, projectId, name, Buffer.from(secretHash), textArray(scopes), lifetimeMs];
  const [created] = await run<{ createdAt: Date; expiresAt: Date }>(db, CREATE, values);
  return created as { createdAt: Date; expiresAt: Date };
}

/** The members that decide whether a key is valid. `expiresInMs` is negative if the key has expired. */
export type StoredApiKey = {
  id: string;
  orgId: string;
  projectId: string | null;
  secretHash: Uint8Array;
  scopes: string[];
  isRevoked: boolean;
  expiresInMs: number;
  isSelfRegistered: boolean;
};

/** Returns the keys that exist among these ids, of any org, in no particular order. */
export async function findApiKeys(db: Queryable, ids: readonly string[]): Promise<StoredApiKey[]> {
  return run<StoredApiKey>(db, FIND, [textArray(ids)]);
}

export type ApiKeyInfo = {
  id: string;
  orgId: string;
  projectId: string | null;
  name: string;
  scopes: string[];
  createdAt: Date;
  expiresAt: Date;
  lastUsedAt: Date | null;
  revokedAt: Date | null;
  isExpired: boolean;
};

/** Returns the oldest keys first, including revoked and expired ones. */
export async function listApiKeys(db: Queryable, orgId: string): Promise<ApiKeyInfo[]> {
  return run<ApiKeyInfo>(db, LIST, [orgId]);
}

/** The last key of the page before. Times are exact to the microsecond, so they are kept as text. */
export type ApiKeyPosition = { readonly createdAt: string; readonly id: string };

/** Oldest first. */
export async function listApiKeyPage(
  db: Queryable,
  { orgId, after, limit }: { orgId: string; after: ApiKeyPosition | null; limit: number },
): Promise<{ keys: ApiKeyInfo[]; next: ApiKeyPosition | null }> {
  const rows = await runNamed(db, PAGE, { orgId, afterAt: after?.createdAt ?? null, afterId: after?.id ?? '', limit: limit + 1 });
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const next = rows.length > limit && last !== undefined ? { createdAt: last.place, id: last.id } : null;
  return { keys: page.map(({ place: _, ...key }) => key), next };
}

/** Returns the time of the first revocation and whether it is this one, or null if the org has no such key. */
export async function revokeApiKey(db: Queryable, orgId: string, id: string): Promise<{ at: Date; isFirst: boolean } | null> {
  return (await run<{ at: Date; isFirst: boolean }>(db, REVOKE, [orgId, id]))[0] ?? null;
}

/** Records that the keys were used, at most once a minute each. */
export async function touchApiKeys(db: Queryable, ids: readonly string[]): Promise<void> {
  await run(db, TOUCH, [textArray(ids)]);
}

/** Whether any org has a key. Call it inside a transaction: other callers wait until that ends. */
export async function haveApiKeys(db: Queryable): Promise<boolean> {
  await run(db, LOCK);
  const rows = await run<{ found: boolean }>(db, HAVE_ANY);
  return rows[0]?.found === true;
}
