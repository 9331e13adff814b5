import { joinsLock, waitForLock } from '../driver/advisory-locks.ts';
import { int8Array } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// A pending job waits for its dependencies. A job that has not ended waits for its joined children. The walk visits each job once, so
// it always ends. If no job depends on any of the target jobs, the walk does not start. OFFSET 0 keeps the walk on the indexes.
const WALK = statement(
  'find_cycle',
  `WITH RECURSIVE awaited AS (
  SELECT seq FROM unnest($2::int8[]) AS d(seq) WHERE EXISTS (SELECT FROM unnest($3::int8[]) AS t(seq) CROSS JOIN LATERAL (
    SELECT FROM millrace.dependencies d WHERE d.org_id = $1::uuid AND d.depends_on_seq = t.seq LIMIT 1) d)
  UNION
  SELECT n.seq FROM awaited a CROSS JOIN LATERAL (
    SELECT d.depends_on_seq AS seq FROM millrace.jobs j JOIN millrace.dependencies d ON d.org_id = j.org_id AND d.job_seq = j.seq
    WHERE j.org_id = $1::uuid AND j.seq = a.seq AND j.state = 'pending'
    UNION ALL
    SELECT c.seq FROM millrace.jobs c WHERE c.org_id = $1::uuid AND c.parent_seq = a.seq AND c.joins_parent
      AND c.state IN ('pending', 'delayed', 'scheduled', 'running', 'retrying') OFFSET 0) n
)
SELECT EXISTS (SELECT FROM awaited WHERE seq = ANY ($3::int8[])) AS found`,
);

const LOCK = statement('lock_joins', `SELECT ${waitForLock(joinsLock('$1::text'))}`);

/**
 * Until the transaction of `client` ends, no other transaction writes a joined child with dependencies in the org. Only such a child
 * can close a cycle. So if two children would close a cycle together, the second one sees the first.
 */
export async function lockJoins(client: Queryable, orgId: string): Promise<void> {
  await run(client, LOCK, [orgId]);
}

/** Whether one of the `from` jobs waits, directly or through other jobs, for one of the `to` jobs. */
export async function leadsTo(
  db: Queryable,
  { orgId, from, to }: { orgId: string; from: readonly number[]; to: readonly number[] },
): Promise<boolean> {
  const [row] = await run<{ found: boolean }>(db, WALK, [orgId, int8Array(from), int8Array(to)]);
  return row?.found === true;
}
