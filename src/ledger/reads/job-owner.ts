import { type Queryable, run, statement } from '../driver/statement.ts';

const OWNER = statement(
  'job_owner',
  'SELECT org_id AS "orgId", job_type AS "jobType" FROM millrace.jobs WHERE id = $1::uuid',
);

/** Whose job this is, of whatever org: for doors that say of a stranger's job that it is a stranger's. */
export async function jobOwner(db: Queryable, id: string): Promise<{ orgId: string; jobType: string } | null> {
  const [owner] = await run<{ orgId: string; jobType: string }>(db, OWNER, [id]);
  return owner ?? null;
}
