import { MAX_DEPENDENTS } from '../../core/dependencies.ts';
import type { JobState } from '../../core/states.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

export type LockedDependency = {
  id: string;
  seq: number;
  state: JobState;
  depth: number;
  priority: number;
  /** How many jobs wait for it or waited for it; 0 once it has ended. */
  dependents: number;
};

// By id alone, then the org as a filter: an index led by the org could be walked from end to end. KEY SHARE keeps the pruner from
// removing the jobs and holds up nothing else: the caller's transaction may stay open for long. The state may be older than
// the lock, so only an end that no job ever leaves may be relied on. The releaser looks at everything else after the commit. It
// also counts the dependents, and only the ones that it has not counted yet are counted here.
const LOCK = statement(
  'lock_dependencies',
  `SELECT j.id, j.seq, j.state, j.depth, j.priority, CASE WHEN j.state >= 'completed' THEN 0 ELSE coalesce(c.dependents, 0) + (SELECT count(*)::int4 FROM (
    SELECT FROM millrace.dependencies d WHERE d.org_id = j.org_id AND d.depends_on_seq = j.seq AND d.job_seq > coalesce(c.counted_to, 0)
    LIMIT ${MAX_DEPENDENTS}) d) END AS dependents
  FROM millrace.jobs j LEFT JOIN millrace.dependent_counts c ON c.org_id = j.org_id AND c.seq = j.seq
  WHERE j.id = ANY ($2::uuid[]) AND (j.org_id = $1::uuid) IS TRUE ORDER BY j.seq FOR KEY SHARE OF j`,
);

/**
 * The jobs a new one is to wait for. They cannot be removed before the caller's transaction ends, and may run and end
 * meanwhile. Jobs of other orgs are not found.
 */
export async function lockDependencies(
  client: Queryable,
  params: { orgId: string; ids: readonly string[] },
): Promise<LockedDependency[]> {
  const rows = await run<LockedDependency>(client, LOCK, [params.orgId, params.ids]);
  // A client of the user's own transaction gives bigints as text.
  return rows.map((row) => ({ ...row, seq: Number(row.seq) }));
}
