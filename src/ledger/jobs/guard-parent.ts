import type { Job } from '../../core/job.ts';
import { isInTransaction } from '../attempts/fenced-writes.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

export type GuardedParent =
  /** With `transactionEnded` nothing was read: the transaction that the spawn was meant for has ended. */
  | { landed: false; transactionEnded?: true }
  | {
      landed: true;
      depth: number;
      priority: number;
      /** How many children this attempt has spawned so far. */
      children: number;
      /** The parent and all its ancestors. */
      ancestorIds: string[];
      /** The parent and the ancestors that it joins, directly or through others. Each of them ends after the parent. */
      joinedSeqs: number[];
      /** The parent's values that a child inherits unless it has its own. */
      origin: Origin;
    };

export type Origin = Pick<Job, 'requestId' | 'correlationId' | 'projectId' | 'traceparent'>;

// Like a progress report, it does not wait for a lock that others hold.
const LOCK = statement(
  'lock_parent',
  `WITH place AS MATERIALIZED (
  SELECT ${isInTransaction('$5')} AS is_right
), parent AS (
  SELECT depth, priority, coalesce(request_id, id::text) AS request_id, correlation_id, project_id, traceparent FROM millrace.jobs
  WHERE org_id = $1::uuid AND seq = $2::int8 AND lease_seq = $3::int8 AND state = 'running' AND worker_id = $4::int8
    AND (SELECT is_right FROM place)
  FOR NO KEY UPDATE NOWAIT
)
SELECT place.is_right, parent.* FROM place LEFT JOIN parent ON true`,
);

// A separate statement, because it must see the children of a spawn that the lock waited for. Children of earlier attempts are older
// than the start of this attempt.
const DESCRIBE = statement(
  'describe_parent',
  `WITH RECURSIVE line AS (
  SELECT j.id, j.seq, j.parent_seq, j.joins_parent, true AS is_joined
  FROM millrace.jobs j WHERE j.org_id = $1::uuid AND j.seq = $2::int8
  UNION ALL
  SELECT j.id, j.seq, j.parent_seq, j.joins_parent, l.is_joined AND l.joins_parent
  FROM line l JOIN millrace.jobs j ON j.org_id = $1::uuid AND j.seq = l.parent_seq
)
SELECT (SELECT count(*)::int4 FROM millrace.jobs p JOIN millrace.jobs c ON c.org_id = p.org_id AND c.parent_seq = p.seq
        WHERE p.org_id = $1::uuid AND p.seq = $2::int8 AND c.created_at >= p.started_at) AS children,
  array_agg(id::text) AS ancestor_ids,
  array_agg(seq::text) FILTER (WHERE is_joined) AS joined_seqs FROM line`,
);

type LineRow = { children: number; ancestor_ids: string[]; joined_seqs: string[] };

type ParentRow = {
  is_right: boolean;
  depth: number | null;
  priority: number;
  request_id: string;
  correlation_id: string | null;
  project_id: string | null;
  traceparent: string | null;
};

/**
 * Locks a running job while its attempt spawns children. An attempt that lost its lease spawns no children. With `transactionId` it
 * locks only if `client` is still in that transaction.
 */
export async function lockParent(
  client: Queryable,
  params: { orgId: string; seq: number; leaseSeq: number; workerId: number },
  transactionId: string | null = null,
): Promise<GuardedParent> {
  const { orgId, seq, leaseSeq, workerId } = params;
  const locked = await run<ParentRow>(client, LOCK, [orgId, seq, leaseSeq, workerId, transactionId]);
  const parent = locked[0] as ParentRow;
  if (!parent.is_right) return { landed: false, transactionEnded: true };
  if (parent.depth === null) return { landed: false };
  const rows = await run<LineRow>(client, DESCRIBE, [orgId, seq]);
  const { children, ancestor_ids: ancestorIds, joined_seqs } = rows[0] as LineRow;
  const { priority, request_id: requestId, correlation_id, project_id: projectId, traceparent } = parent;
  const origin = { requestId, correlationId: correlation_id ?? requestId, projectId, traceparent };
  const joinedSeqs = joined_seqs.map(Number);
  return { landed: true, depth: parent.depth, priority, children, ancestorIds, joinedSeqs, origin };
}
