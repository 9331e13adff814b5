import { type Queryable, run, statement } from './statement.ts';

// FOR UPDATE: nobody can take the job away before the caller's transaction ends.
const ASSERT = statement(
  'assert_owned',
  `SELECT 1 AS held FROM millrace.jobs WHERE org_id = $1 AND seq = $2 AND lease_seq = $3 AND state = 'running' FOR UPDATE`,
);

/** Whether the attempt still holds its job; if so it keeps it until the transaction of `client` ends. */
export async function assertOwned(
  client: Queryable,
  lease: { orgId: string; seq: number; leaseSeq: number },
): Promise<boolean> {
  const rows = await run(client, ASSERT, [lease.orgId, lease.seq, lease.leaseSeq]);
  return rows.length === 1;
}
