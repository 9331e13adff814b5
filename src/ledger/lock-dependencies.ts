import type { JobState } from '../core/states.ts';
import { type Queryable, run, statement } from './statement.ts';

export type LockedDependency = { id: string; seq: number; state: JobState; depth: number; priority: number };

// By id alone, then the org as a filter: an index led by the org could be walked from end to end. A failed job is marked as
// well: retried by hand before the releaser looked at it, it ends a second time, and that end must find its dependents.
const LOCK = statement(
  'lock_dependencies',
  `WITH locked AS MATERIALIZED (
  SELECT j.id, j.seq, j.state, j.depth, j.priority, j.has_dependents FROM millrace.jobs j
  WHERE j.id = ANY ($2::uuid[]) AND (j.org_id = $1::uuid) IS TRUE ORDER BY j.seq FOR UPDATE
), marked AS (
  UPDATE millrace.jobs j SET has_dependents = true FROM locked l
  WHERE j.org_id = $1::uuid AND j.seq = l.seq AND NOT l.has_dependents
    AND l.state NOT IN ('completed', 'cancelled')
)
SELECT id, seq, state, depth, priority FROM locked`,
);

/**
 * The jobs a new one is to wait for, locked until the new one is written: each either ends afterwards and finds that it
 * is awaited, or has ended and says how. Jobs of other orgs are not found.
 */
export async function lockDependencies(
  client: Queryable,
  params: { orgId: string; ids: readonly string[] },
): Promise<LockedDependency[]> {
  const rows = await run<LockedDependency>(client, LOCK, [params.orgId, params.ids]);
  // A client of the user's own transaction gives bigints as text.
  return rows.map((row) => ({ ...row, seq: Number(row.seq) }));
}
