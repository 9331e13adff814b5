import { type Queryable, run, statement } from '../driver/statement.ts';

// The lock keeps the job from every other writer until the caller's transaction ends. It is the weakest that does: rows that
// reference the job can still be inserted.
const ASSERT = statement(
  'assert_owned',
  `SELECT pg_current_xact_id()::text AS transaction_id FROM millrace.jobs
   WHERE org_id = $1 AND seq = $2 AND lease_seq = $3 AND state = 'running' FOR NO KEY UPDATE`,
);

/** The id of the transaction of `client`, which holds the job until it ends. Null: the attempt has lost the job. */
export async function assertOwned(
  client: Queryable,
  lease: { orgId: string; seq: number; leaseSeq: number },
): Promise<string | null> {
  const [row] = await run<{ transaction_id: string }>(client, ASSERT, [lease.orgId, lease.seq, lease.leaseSeq]);
  return row?.transaction_id ?? null;
}
