import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const DUE = statement(
  'audit_chains_to_prune',
  `SELECT c.org_id AS "orgId" FROM millrace.audit_chains c CROSS JOIN LATERAL (SELECT r.at FROM millrace.audit_rows r
     WHERE r.org_id = c.org_id AND r.id >= c.first_id ORDER BY r.id LIMIT 1) f
   WHERE f.at < millrace.clock() - $1::float8 * interval '1 ms' LIMIT $2::int4`,
);

// Removes rows from the front of each chain, up to the first one that is too young, and keeps the hash of the last removed one. A chain that
// the audit writer holds at this moment is left for a later round.
const PRUNE = statement(
  'prune_audit',
  `WITH chains AS MATERIALIZED (
     SELECT org_id, first_id FROM millrace.audit_chains WHERE org_id = ANY ($1::uuid[]) FOR UPDATE SKIP LOCKED
   ), old AS MATERIALIZED (
     SELECT r.* FROM chains c CROSS JOIN LATERAL (
       SELECT r.org_id, r.id, r.position, r.hash, bool_and(r.at < millrace.clock() - $2::float8 * interval '1 ms') OVER (ORDER BY r.id) AS is_old
       FROM (SELECT * FROM millrace.audit_rows r WHERE r.org_id = c.org_id AND r.id >= c.first_id ORDER BY r.id LIMIT $3::int4) r) r
     WHERE r.is_old
   ), gone AS (
     DELETE FROM millrace.audit_rows WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING 1 AS one
   ), anchored AS (
     UPDATE millrace.audit_chains c SET first_position = o.position + 1, first_id = o.id + 1, anchor_hash = o.hash
     FROM (SELECT DISTINCT ON (org_id) org_id, id, position, hash FROM old ORDER BY org_id, id DESC) o WHERE c.org_id = o.org_id
   )
   SELECT count(*)::int4 AS gone FROM gone`,
);

const CHAINS = 100;

/** Removes rows that are older than `retentionMs` from the front of their chains, about `limit` of them. Returns their number. */
export async function pruneAudit(db: Queryable, { retentionMs, limit }: { retentionMs: number; limit: number }): Promise<number> {
  const due = await run<{ orgId: string }>(db, DUE, [retentionMs, CHAINS]);
  if (due.length === 0) return 0;
  const perChain = Math.max(1, Math.floor(limit / due.length));
  const [row] = await run<{ gone: number }>(db, PRUNE, [uuidArray(due.map(({ orgId }) => orgId)), retentionMs, perChain]);
  return row?.gone ?? 0;
}
