import { decideCancellation } from '../core/cancellation.ts';
import type { JobState } from '../core/states.ts';
import { countedText, RECORD, recordedText } from './record-events.ts';
import { type Queryable, run, statement } from './statement.ts';

export type CancelParams = {
  orgId: string;
  ids: readonly string[];
  reason: string | null;
  actor: string | null;
  force: boolean;
};

export type CancelledJob = {
  id: string;
  kind: 'cancelled' | 'requested' | 'already_final' | 'not_found';
  previousState: JobState | null;
};

// A job whose handler is at work is asked to stop; any other that has not ended is cancelled on the spot. A second request
// may make the first one forced, never gentler. Jobs are found by id alone: an index led by the org could be walked whole.
const CANCEL = statement(
  'cancel_jobs',
  `WITH ${RECORD}, locked AS MATERIALIZED (
  SELECT j.seq, j.id, j.state, j.is_held FROM millrace.jobs j
  WHERE j.id = ANY ($2::uuid[]) AND (j.org_id = $1::uuid) IS TRUE ORDER BY j.seq FOR UPDATE
), cancelled AS (
  UPDATE millrace.jobs j SET state = 'cancelled', completed_at = millrace.clock(), updated_at = millrace.clock(),
    worker_id = NULL, is_held = false, result = NULL, result_bytes = NULL, ${countedText()}
  FROM locked l
  WHERE j.org_id = $1::uuid AND j.seq = l.seq
    AND (l.is_held OR l.state IN ('pending', 'delayed', 'scheduled', 'retrying'))
  RETURNING j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round, l.state AS from_state,
    j.has_dependents OR j.joins_parent AS is_awaited
), requested AS (
  INSERT INTO millrace.cancel_requests AS r (org_id, seq, is_forced, reason, actor, requested_at)
  SELECT $1::uuid, seq, $5::bool, $3::text, $4::text, millrace.clock() FROM locked WHERE state = 'running' AND NOT is_held
  ON CONFLICT (org_id, seq) DO UPDATE SET is_forced = true WHERE excluded.is_forced AND NOT r.is_forced
), forgotten AS (
  DELETE FROM millrace.waiting w USING cancelled c WHERE w.org_id = $1::uuid AND w.seq = c.seq
), released AS (
  INSERT INTO millrace.releases (org_id, seq) SELECT $1::uuid, seq FROM cancelled WHERE is_awaited
), recorded AS (
  ${recordedText({
    ...{
      source: 'cancelled',
      orgId: '$1::uuid',
      from: 'from_state',
      to: `'cancelled'`,
      reason: `'cancelled'`,
      actor: '$4::text',
    },
    detail: `CASE WHEN $3::text IS NOT NULL THEN json_build_object('reason', $3::text) END`,
    groupBy: ['from_state'],
  })}
)
SELECT id, state, is_held FROM locked`,
);

/** Cancels jobs or asks their handlers to stop. One answer per id, in the order given. */
export async function cancelJobs(db: Queryable, params: CancelParams): Promise<CancelledJob[]> {
  const { orgId, ids, reason, actor, force } = params;
  const rows = await run<{ id: string; state: JobState; is_held: boolean }>(db, CANCEL, [
    orgId,
    ids,
    reason,
    actor,
    force,
  ]);
  const found = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id) => {
    const row = found.get(id.toLowerCase());
    if (row === undefined) return { id, kind: 'not_found', previousState: null };
    return {
      id,
      kind: row.is_held ? 'cancelled' : KINDS[decideCancellation(row.state).kind],
      previousState: row.state,
    };
  });
}

const KINDS = { cancel: 'cancelled', request: 'requested', already_complete: 'already_final' } as const;
