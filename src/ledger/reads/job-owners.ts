import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const OWNERS = statement(
  'job_owners',
  'SELECT j.id, j.org_id AS "orgId" FROM unnest($1::uuid[]) AS w(id) JOIN millrace.jobs j ON j.id = w.id',
);

/** Returns the org of each job, by its id. Only for operators: it looks at the jobs of all orgs. */
export async function jobOwners(db: Queryable, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await run<{ id: string; orgId: string }>(db, OWNERS, [uuidArray(ids)]);
  return new Map(rows.map(({ id, orgId }) => [id, orgId]));
}
