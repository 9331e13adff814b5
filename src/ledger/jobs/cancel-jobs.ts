import { decideCancellation } from '../../core/cancellation.ts';
import type { Owner } from '../../core/owner.ts';
import type { JobState } from '../../core/states.ts';
import { MAY_RUN } from '../attempts/start-jobs.ts';
import { auditedText } from '../audit/audited-text.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { countedText, RECORD, recordedText, tookText } from '../history/record-events.ts';
import { LOGGED, type MovedJob } from '../moved-jobs.ts';
import { IS_LEASED } from '../reads/job-row.ts';
import { releasedText, withdrawnText } from '../tokens.ts';

export type CancelParams = Owner & {
  ids: readonly string[];
  reason: string | null;
  actor: string | null;
  force: boolean;
  /** The request that asks for each of the jobs, for the audit trail. */
  requestIds?: readonly (string | null)[];
};

export type CancelledJob = {
  id: string;
  /** `retry_dropped`: the job had failed and waited for its next attempt. It stays failed, without that attempt. */
  kind: 'cancelled' | 'requested' | 'retry_dropped' | 'already_final' | 'not_found';
  previousState: JobState | null;
  /** For the log; absent if the state of the job did not change. */
  moved?: MovedJob;
};

const reasonText = (state: string): string => `CASE ${state} WHEN 'failed' THEN 'retry_dropped' ELSE 'cancelled' END`;

// A job whose handler runs, or may run because a worker leased it in advance, is asked to stop. If its policy cancels immediately, the
// statement ends the lease instead, and the worker notices. Every other job that has not ended is cancelled immediately. A second request
// can make the first one forced, but not undo that. A job whose next attempt is dropped ended at the time of its failure. Jobs are looked
// up by id alone, because PostgreSQL could scan a whole index that begins with the org. The tokens of cancelled jobs are deleted, so that
// no claim spends its limit on them. Every request is in the audit trail, also one that changes nothing.
const cancelText = (lock: string): string => `WITH ${RECORD}, locked AS MATERIALIZED (
  SELECT j.seq, j.id, j.state, j.is_held, j.project_id, j.correlation_id, j.attempts_started, j.queue, j.job_type, j.priority, j.order_key, ${IS_LEASED} AND NOT (${MAY_RUN}) AS is_leased, ${MAY_RUN} AS may_run,
    coalesce((p.body->>'cancelsAtOnce')::boolean, false) AS at_once
  FROM millrace.jobs j JOIN millrace.policies p ON p.id = j.policy_id
  WHERE j.id = ANY ($2::uuid[]) AND (j.org_id = $1::uuid) IS TRUE AND ($6::uuid IS NULL OR j.project_id = $6::uuid) ORDER BY j.seq ${lock}
), cancelled AS (
  UPDATE millrace.jobs j SET
    state = (CASE WHEN l.at_once AND l.state = 'retrying' THEN 'failed' ELSE 'cancelled' END)::millrace.job_state,
    completed_at = CASE WHEN l.at_once AND l.state = 'retrying' THEN j.updated_at ELSE millrace.clock() END,
    updated_at = CASE WHEN l.at_once AND l.state = 'retrying' THEN j.updated_at ELSE millrace.clock() END,
    worker_id = NULL, is_held = false, result = NULL, result_bytes = NULL, ${countedText()}
  FROM locked l
  WHERE j.org_id = $1::uuid AND j.seq = l.seq
    AND (l.is_held OR (l.state IN ('pending', 'delayed', 'scheduled', 'retrying') AND NOT l.may_run)
      OR (l.at_once AND (l.state = 'running' OR l.may_run)))
  RETURNING j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round, l.state AS from_state,
    j.state AS to_state, CASE WHEN l.state = 'running' THEN ${tookText('j.started_at')} END AS took_ms,
    CASE WHEN $3::text IS NOT NULL OR l.is_leased THEN json_strip_nulls(json_build_object(
      'reason', $3::text, 'claimed', CASE WHEN l.is_leased THEN true END,
      'assignedMs', CASE WHEN l.is_leased THEN greatest(0, ${tookText('j.claimed_at')}) END)) END AS detail,
    j.has_dependents OR j.joins_parent AS is_awaited,
    json_build_object(${LOGGED}, 'from', l.state, 'to', j.state, 'reason', ${reasonText('j.state')}, 'isLeased', l.is_leased,
      'failure', CASE WHEN j.state = 'failed' THEN j.last_error END) AS moved
), requested AS (
  INSERT INTO millrace.cancel_requests AS r (org_id, seq, is_forced, reason, actor, requested_at)
  SELECT $1::uuid, seq, $5::bool, $3::text, $4::text, millrace.clock() FROM locked
  WHERE (state = 'running' OR may_run) AND NOT is_held AND NOT at_once
  ON CONFLICT (org_id, seq) DO UPDATE SET is_forced = true WHERE excluded.is_forced AND NOT r.is_forced
), ${withdrawnText('locked', `l.state = 'scheduled'`)}
, forgotten AS (
  DELETE FROM millrace.waiting w USING cancelled c WHERE w.org_id = $1::uuid AND w.seq = c.seq
), not_granted AS (
  DELETE FROM millrace.limited t WHERE t.ctid = ANY (ARRAY(SELECT t.ctid FROM cancelled c JOIN millrace.limited t
    ON t.org_id = $1::uuid AND t.seq = c.seq FOR UPDATE OF t SKIP LOCKED))
), ${releasedText('cancelled', '$1::uuid')}, recorded AS (
  ${recordedText({
    source: 'cancelled',
    orgId: '$1::uuid',
    from: 'from_state',
    to: 'to_state',
    reason: reasonText('to_state'),
    actor: '$4::text',
    tookMs: 'took_ms',
    detail: 'detail',
    groupBy: ['from_state', 'to_state'],
  })}
), ${auditedText({
  source: 'locked l',
  event: 'job.cancel_requested',
  orgId: '$1::uuid',
  actor: '$4::text',
  requestId: '($7::text[])[array_position($2::uuid[], l.id)]',
  details: `json_strip_nulls(json_build_object('state', l.state, 'force', CASE WHEN $5::bool THEN true END, 'reason', nullif($3::text, '')))`,
})}
SELECT l.id, l.state, l.is_held, l.at_once, l.may_run, c.moved FROM locked l LEFT JOIN cancelled c ON c.seq = l.seq`;

const CANCEL = statement('cancel_jobs', cancelText('FOR NO KEY UPDATE OF j'));
const CANCEL_FREE = statement('cancel_free_jobs', cancelText('FOR NO KEY UPDATE OF j SKIP LOCKED'));

const FIND = statement(
  'find_jobs_to_cancel',
  `SELECT j.id FROM millrace.jobs j WHERE j.id = ANY ($2::uuid[]) AND (j.org_id = $1::uuid) IS TRUE
     AND ($3::uuid IS NULL OR j.project_id = $3::uuid)`,
);

type Row = { id: string; state: JobState; is_held: boolean; at_once: boolean; may_run: boolean; moved: MovedJob | null };

/** Cancels jobs or asks their handlers to stop. Returns one result per id, in order. Waits for jobs that other transactions lock. */
export async function cancelJobs(db: Queryable, params: CancelParams): Promise<CancelledJob[]> {
  const { orgId, projectId, ids, reason, actor, force, requestIds = [] } = params;
  const rows = await run<Row>(db, CANCEL, [orgId, ids, reason, actor, force, projectId, requestIds]);
  const found = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id) => resultFor(id, found.get(id.toLowerCase())));
}

/** Like `cancelJobs`, but does not wait. The result for a job that another transaction locks is null, and the job is unchanged. */
export async function cancelFreeJobs(db: Queryable, params: CancelParams): Promise<(CancelledJob | null)[]> {
  const { orgId, projectId, ids, reason, actor, force, requestIds = [] } = params;
  const rows = await run<Row>(db, CANCEL_FREE, [orgId, ids, reason, actor, force, projectId, requestIds]);
  const found = new Map(rows.map((row) => [row.id, row]));
  const missing = ids.filter((id) => !found.has(id.toLowerCase()));
  const held = new Set<string>();
  if (missing.length > 0) for (const { id } of await run<{ id: string }>(db, FIND, [orgId, missing, projectId])) held.add(id);
  return ids.map((id) => (held.has(id.toLowerCase()) ? null : resultFor(id, found.get(id.toLowerCase()))));
}

function resultFor(id: string, row: Row | undefined): CancelledJob {
  if (row === undefined) return { id, kind: 'not_found', previousState: null };
  const kind = row.is_held ? 'cancelled' : KINDS[decideCancellation(row.may_run ? 'running' : row.state, row.at_once).kind];
  return { id, kind, previousState: row.state, ...(row.moved === null ? {} : { moved: row.moved }) };
}

const KINDS = {
  cancel: 'cancelled',
  request: 'requested',
  drop_retry: 'retry_dropped',
  already_complete: 'already_final',
} as const;
