import type { JobState } from '../../core/states.ts';
import { textArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { keyScope, type SoughtKey } from './idempotency-keys.ts';

/** A valid key as the ledger has it. */
export type KeyRecord = {
  readonly type: string;
  readonly projectId: string | null;
  readonly jobId: string;
  readonly state: JobState;
  readonly firstSeenAt: Date;
  readonly lastSeenAt: Date;
  readonly expiresAt: Date;
};

const COLUMNS = `split_part(k.scope, chr(10), 1) AS type, nullif(split_part(k.scope, chr(10), 2), '') AS "projectId", k.job_id AS "jobId", j.state,
     j.created_at AS "firstSeenAt", coalesce(k.last_seen_at, j.created_at) AS "lastSeenAt", k.expires_at AS "expiresAt"`;

// The statement that stores a key also creates its job, so the job's creation is the first time that the key was seen.
const FIND_SCOPED = statement(
  'find_key_record',
  `SELECT ${COLUMNS}
   FROM millrace.idempotency_keys k JOIN millrace.jobs j ON j.id = k.job_id AND j.org_id = k.org_id
   WHERE k.org_id = $1::uuid AND k.scope = $2 AND k.key = $3 AND k.expires_at > millrace.clock()`,
);

/** An org with more scopes than this must name the type. */
const MAX_SCOPES = 10_000;

// The primary key begins with org and scope. This walks from one scope of the org to the next, with one index lookup for each. An index
// by key alone would cost every submission.
const FIND_ANY = statement(
  'find_key_records',
  `WITH RECURSIVE scopes AS (
     SELECT 1 AS n, (SELECT k.scope FROM millrace.idempotency_keys k WHERE k.org_id = $1::uuid ORDER BY k.scope LIMIT 1) AS scope
     UNION ALL
     SELECT s.n + 1, (SELECT k.scope FROM millrace.idempotency_keys k WHERE k.org_id = $1::uuid AND k.scope > s.scope ORDER BY k.scope LIMIT 1)
     FROM scopes s WHERE s.scope IS NOT NULL AND s.n < ${MAX_SCOPES}
   )
   SELECT ${COLUMNS}
   FROM scopes s CROSS JOIN LATERAL (
     SELECT k.* FROM millrace.idempotency_keys k WHERE k.org_id = $1::uuid AND k.scope = s.scope AND k.key = $2 OFFSET 0) k
   JOIN millrace.jobs j ON j.id = k.job_id AND j.org_id = k.org_id
   WHERE k.expires_at > millrace.clock()
     AND ($3::text IS NULL OR split_part(k.scope, chr(10), 1) = $3) AND ($4::text IS NULL OR split_part(k.scope, chr(10), 2) = $4)
   ORDER BY k.scope LIMIT $5::int4`,
);

export type KeyQuestion = { readonly key: string; readonly type: string | null; readonly projectId: string | null };

/** The records of a key, at most `limit`. With a type and no project, a key without a project comes before all others. */
export async function findKeyRecords(
  db: Queryable,
  orgId: string,
  { key, type, projectId, limit }: KeyQuestion & { limit: number },
): Promise<KeyRecord[]> {
  if (type !== null) {
    const found = await run<KeyRecord>(db, FIND_SCOPED, [orgId, keyScope(type, projectId), key]);
    if (found.length > 0 || projectId !== null) return found;
  }
  return run<KeyRecord>(db, FIND_ANY, [orgId, key, type, projectId, limit]);
}

// A transaction that holds the row is a repeat itself.
const TOUCH = statement(
  'touch_keys',
  `UPDATE millrace.idempotency_keys SET last_seen_at = millrace.clock() WHERE ctid = ANY (ARRAY(
     SELECT k.ctid FROM unnest($2::text[], $3::text[]) AS w(scope, key)
     JOIN millrace.idempotency_keys k ON k.org_id = $1::uuid AND k.scope = w.scope AND k.key = w.key FOR UPDATE OF k SKIP LOCKED))`,
);

/** Notes a repeat that was answered without a write. */
export async function touchKeys(db: Queryable, orgId: string, seen: readonly SoughtKey[]): Promise<void> {
  await run(db, TOUCH, [orgId, textArray(seen.map(({ scope }) => scope)), textArray(seen.map(({ key }) => key))]);
}
