import { type Queryable, run, statement } from './statement.ts';

export type GuardedParent =
  | { landed: false }
  | {
      landed: true;
      depth: number;
      priority: number;
      /** Spawned so far, by this attempt and those before it. */
      children: number;
      /** The parent and everything above it. */
      ancestorIds: string[];
    };

const LOCK = statement(
  'lock_parent',
  `SELECT depth, priority FROM millrace.jobs
  WHERE org_id = $1::uuid AND seq = $2::int8 AND lease_seq = $3::int8 AND state = 'running' AND worker_id = $4::int8
  FOR UPDATE`,
);

// A statement of its own: it must see the children of a spawn that the lock waited for.
const DESCRIBE = statement(
  'describe_parent',
  `WITH RECURSIVE line AS (
  SELECT j.id, j.parent_seq FROM millrace.jobs j WHERE j.org_id = $1::uuid AND j.seq = $2::int8
  UNION ALL
  SELECT j.id, j.parent_seq FROM line l JOIN millrace.jobs j ON j.org_id = $1::uuid AND j.seq = l.parent_seq
)
SELECT (SELECT count(*)::int4 FROM millrace.jobs c WHERE c.org_id = $1::uuid AND c.parent_seq = $2::int8) AS children,
       array_agg(id::text) AS ancestor_ids FROM line`,
);

/** Holds a running job still while its attempt spawns children. An attempt that lost its lease spawns nothing. */
export async function lockParent(
  client: Queryable,
  params: { orgId: string; seq: number; leaseSeq: number; workerId: number },
): Promise<GuardedParent> {
  const { orgId, seq, leaseSeq, workerId } = params;
  const [parent] = await run<{ depth: number; priority: number }>(client, LOCK, [orgId, seq, leaseSeq, workerId]);
  if (parent === undefined) return { landed: false };
  const rows = await run<{ children: number; ancestor_ids: string[] }>(client, DESCRIBE, [orgId, seq]);
  const { children, ancestor_ids } = rows[0] as { children: number; ancestor_ids: string[] };
  return { landed: true, depth: parent.depth, priority: parent.priority, children, ancestorIds: ancestor_ids };
}
