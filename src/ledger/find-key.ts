import { type Queryable, run, statement } from './statement.ts';

const FIND = statement(
  'find_key',
  `SELECT job_id, fingerprint FROM millrace.idempotency_keys
   WHERE org_id = $1::uuid AND scope = $2::text AND key = $3::text AND expires_at > millrace.clock()`,
);

export type KeyedJob = { readonly jobId: string; readonly fingerprint: string };

/** The job that a key stands for, and the request it came with. `scope` is as in `key-scope.ts`. */
export async function findKey(
  db: Queryable,
  orgId: string,
  { scope, key }: { scope: string; key: string },
): Promise<KeyedJob | null> {
  const [row] = await run<{ job_id: string; fingerprint: string }>(db, FIND, [orgId, scope, key]);
  return row === undefined ? null : { jobId: row.job_id, fingerprint: row.fingerprint };
}
