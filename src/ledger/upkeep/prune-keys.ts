import { type Queryable, run, statement } from '../driver/statement.ts';

const PRUNE_REVOKED = statement(
  'prune_revoked_keys',
  `WITH old AS MATERIALIZED (
     SELECT id FROM millrace.api_keys WHERE revoked_at <= millrace.clock() - $1::float8 * interval '1 ms'
     ORDER BY revoked_at LIMIT $2::int4 FOR UPDATE SKIP LOCKED
   )
   DELETE FROM millrace.api_keys k USING old o WHERE k.id = o.id RETURNING 1 AS one`,
);

const PRUNE_REPLIES = statement(
  'prune_create_replies',
  `WITH expired AS MATERIALIZED (
     SELECT scope, key FROM millrace.create_replies WHERE expires_at <= millrace.clock()
     ORDER BY expires_at LIMIT $1::int4 FOR UPDATE SKIP LOCKED
   )
   DELETE FROM millrace.create_replies r USING expired e WHERE r.scope = e.scope AND r.key = e.key RETURNING 1 AS one`,
);

export type PrunedAccess = { revokedKeys: number; replies: number };

/**
 * Removes keys that were revoked more than `revokedKeysMs` ago, or none if that is null, and expired replies. It removes at most
 * `limit` of each kind, so call it again while a count reaches the limit. A valid key is never removed.
 */
export async function pruneAccess(
  db: Queryable,
  { revokedKeysMs, limit }: { revokedKeysMs: number | null; limit: number },
): Promise<PrunedAccess> {
  const revokedKeys = revokedKeysMs === null ? 0 : (await run(db, PRUNE_REVOKED, [revokedKeysMs, limit])).length;
  const replies = (await run(db, PRUNE_REPLIES, [limit])).length;
  return { revokedKeys, replies };
}
