import { MAX_DEPENDENTS } from '../../core/dependencies.ts';
import type { JobState } from '../../core/states.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

export type LockedDependency = {
  id: string;
  seq: number;
  state: JobState;
  depth: number;
  priority: number;
  /** How many jobs depend on it. 0 if it has ended. */
  dependents: number;
};

// Looks up by id alone and then filters by org, because an index that starts with the org could be read from end to end. KEY SHARE
// keeps the pruner from removing the jobs and blocks nothing else, since the caller's transaction may stay open for long. The state may
// be older than the lock, so only a final state is reliable. The releaser checks everything else after the commit. It also counts the
// dependents, and this statement counts only the ones that the releaser has not counted yet.
const LOCK = statement(
  'lock_dependencies',
  `SELECT j.id, j.seq, j.state, j.depth, j.priority, CASE WHEN j.state >= 'completed' THEN 0 ELSE coalesce(c.dependents, 0) + (SELECT count(*)::int4 FROM (
    SELECT FROM millrace.dependencies d WHERE d.org_id = j.org_id AND d.depends_on_seq = j.seq AND d.job_seq > coalesce(c.counted_to, 0)
    LIMIT ${MAX_DEPENDENTS}) d) END AS dependents
  FROM millrace.jobs j LEFT JOIN millrace.dependent_counts c ON c.org_id = j.org_id AND c.seq = j.seq
  WHERE j.id = ANY ($2::uuid[]) AND (j.org_id = $1::uuid) IS TRUE ORDER BY j.seq FOR KEY SHARE OF j`,
);

/**
 * Returns the jobs that a new job depends on. They cannot be removed before the caller's transaction ends, but may run and end. Jobs of
 * other orgs are not found.
 */
export async function lockDependencies(client: Queryable, params: { orgId: string; ids: readonly string[] }): Promise<LockedDependency[]> {
  const rows = await run<LockedDependency>(client, LOCK, [params.orgId, params.ids]);
  // A user's client may return bigints as text.
  return rows.map((row) => ({ ...row, seq: Number(row.seq) }));
}
