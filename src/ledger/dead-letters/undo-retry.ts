import { type Queryable, run, statement } from '../driver/statement.ts';
import { countedText, RECORD, recordedText } from '../history/record-events.ts';
import { LOGGED, type MovedJob } from '../moved-jobs.ts';
import { releasedText, withdrawnText } from '../tokens.ts';

// A job that a worker holds may run already, so it is left alone. The last error of the job is still the one of its earlier death.
const UNDO = statement(
  'undo_retry',
  `WITH ${RECORD}, locked AS MATERIALIZED (
  SELECT j.org_id, j.seq, j.state, j.queue, j.job_type, j.priority, j.order_key FROM millrace.jobs j
  WHERE j.id = $2::uuid AND (j.org_id = $1::uuid) IS TRUE AND j.state IN ('scheduled', 'delayed') AND j.worker_id IS NULL
    AND j.last_error IS NOT NULL AND j.job_type NOT LIKE 'forgerun.%' AND j.job_type NOT LIKE 'fetchbox.%'
  FOR NO KEY UPDATE OF j SKIP LOCKED
), undone AS (
  UPDATE millrace.jobs j SET state = $3::millrace.job_state, completed_at = millrace.clock(), updated_at = millrace.clock(),
${countedText()}
  FROM locked l WHERE j.org_id = l.org_id AND j.seq = l.seq
  RETURNING j.org_id, j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round, j.state, l.state AS from_state,
    j.has_dependents OR j.joins_parent AS is_awaited,
    json_build_object(${LOGGED}, 'from', l.state, 'to', j.state, 'reason', 'retry_undone', 'failure', j.last_error) AS moved
), ${withdrawnText('locked', `l.state = 'scheduled'`)}, not_granted AS (
  DELETE FROM millrace.limited t WHERE t.ctid = ANY (ARRAY(SELECT t.ctid FROM undone u JOIN millrace.limited t
    ON t.org_id = u.org_id AND t.seq = u.seq FOR UPDATE OF t SKIP LOCKED))
), ${releasedText('undone')}, reopened AS (
  UPDATE millrace.dead_letters d SET status = 'open', resolved_at = NULL, resolved_by = NULL FROM undone u
  WHERE d.org_id = u.org_id AND d.seq = u.seq AND u.state = 'dead_letter' AND d.status = 'replayed'
), recorded AS (
  ${recordedText({
    source: 'undone',
    from: 'from_state',
    to: 'state',
    reason: `'retry_undone'`,
    actor: '$4::text',
    groupBy: ['from_state', 'state'],
  })}
)
SELECT is_awaited, moved FROM undone`,
);

export type UndoneRetry = { isAwaited: boolean; moved: MovedJob };

export type UndoRetry = { orgId: string; jobId: string; to: 'dead_letter' | 'failed'; actor: string };

/**
 * Takes back a manual retry that no worker has begun: the job returns to the state from which it was retried, and its entry is open again.
 * Returns null if a worker has begun it, or another transaction holds the job.
 */
export async function undoRetry(db: Queryable, { orgId, jobId, to, actor }: UndoRetry): Promise<UndoneRetry | null> {
  const [row] = await run<{ is_awaited: boolean; moved: MovedJob }>(db, UNDO, [orgId, jobId, to, actor]);
  return row === undefined ? null : { isAwaited: row.is_awaited, moved: row.moved };
}
