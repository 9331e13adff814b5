import { decideManualRetry } from '../../core/manual-retry.ts';
import type { Owner } from '../../core/owner.ts';
import type { Policy } from '../../core/policy.ts';
import type { JobState } from '../../core/states.ts';
import { isReserved } from '../../core/submission-members.ts';
import { auditedText } from '../audit/audited-text.ts';
import { replayedText } from '../dead-letter-entries.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { RECORD, RECORD_ID, recordedText } from '../history/record-events.ts';
import { LOGGED, type MovedJob } from '../moved-jobs.ts';
import { readyText, timedText } from '../tokens.ts';

export type RetryParams = Owner & {
  id: string;
  resetAttempts: boolean;
  priority: number | null;
  /** Null for the delay of the job's policy. */
  delayMs: number | null;
  /** In [0, 1), for the jitter of that delay. */
  random?: number;
  /** Also accepts a job that waits for its next attempt: it counts as failed, and this retry replaces the scheduled one. */
  takesOver?: boolean;
  actor: string | null;
  /** The request and its reason, for the audit trail. */
  requestId?: string | null;
  reason?: string | null;
};

export type RetriedJob =
  | { kind: 'queued'; state: 'scheduled' | 'delayed'; scheduledFor: Date; attemptSlot: number; updatedAt: Date; moved: MovedJob }
  /**
   * `exhausted`: its last attempt failed, and its policy allows no more. `beyond_lifetime`: the delay is longer than the job's
   * remaining lifetime.
   */
  | { kind: 'exhausted' | 'not_retriable' | 'beyond_lifetime'; state: JobState }
  /** Its type is reserved, so its priority cannot change. */
  | { kind: 'reserved'; type: string }
  | { kind: 'not_found' };

type Found = {
  seq: number;
  state: JobState;
  job_type: string;
  attempts_started: number;
  max_attempts: number;
  event_count: number;
  replaced_by_id: string | null;
  is_discarded: boolean;
  pending_ms: number;
  policy: Policy;
};

type Written = { run_at_ms: number; attempt_slot: number; updated_at_ms: number; moved: MovedJob };

/** Whether the dead letter of the job was discarded. Such a job cannot be retried until the entry is restored. */
const DISCARDED = `EXISTS (SELECT FROM millrace.dead_letters d WHERE d.org_id = j.org_id AND d.seq = j.seq AND d.status = 'discarded')`;

const READ = statement(
  'read_job_to_retry',
  `SELECT j.seq, j.state, j.job_type, j.attempts_started, j.max_attempts, j.event_count, j.replaced_by_id, p.body AS policy,
    ${DISCARDED} AS is_discarded,
    (extract(epoch FROM j.run_at - millrace.clock()) * 1000)::float8 AS pending_ms
  FROM millrace.jobs j JOIN millrace.policies p ON p.id = j.policy_id
  WHERE j.id = $2::uuid AND (j.org_id = $1::uuid) IS TRUE AND ($3::uuid IS NULL OR j.project_id = $3::uuid)`,
);

// The failure of the job itself. A dependency or a child that failed says nothing about it.
const FAILED_PERMANENTLY = `j.state IN ('failed', 'dead_letter') AND j.last_error->>'category' = 'PERMANENT'
      AND j.last_error->>'code' NOT IN ('DEPENDENCY_FAILED', 'CHILD_FAILED')`;

// The event count is the guard: a job that moved since it was read has another count. A job that waited for its next attempt leaves its
// timer behind, and the stager drops a timer that no longer fits.
const RETRY = statement(
  'retry_job',
  `WITH ${RECORD}, retried AS (
  UPDATE millrace.jobs j SET state = $4::millrace.job_state, completed_at = NULL, updated_at = millrace.clock(),
    run_at = coalesce(millrace.clock() + $5::int8 * interval '1 ms', j.run_at),
    scheduled_at = CASE WHEN $4::text = 'scheduled' THEN millrace.clock() ELSE j.scheduled_at END,
    lifetime_deadline = millrace.clock() + (SELECT (p.body->>'lifetimeMs')::float8 FROM millrace.policies p
                                            WHERE p.id = j.policy_id) * interval '1 ms',
    priority = coalesce($6::int2, j.priority), max_attempts = $7::int2,
    attempts_started = CASE WHEN $8::bool THEN 0 ELSE j.attempts_started END,
    attempt_slot = CASE WHEN $8::bool THEN 1 ELSE j.attempt_slot + 1 END,
    started_at = CASE WHEN $8::bool THEN NULL ELSE j.started_at END,
    permanent_failures = CASE WHEN ${FAILED_PERMANENTLY} THEN coalesce(j.permanent_failures, 0) + 1 ELSE j.permanent_failures END,
    round = j.round + $8::bool::int4, event_count = j.event_count + 1 + $12::bool::int4,
    record_ids = j.record_ids || array_fill(${RECORD_ID}, ARRAY[1 + $12::bool::int4])
  WHERE j.org_id = $1::uuid AND j.seq = $2::int8 AND j.event_count = $3::int4 AND j.replaced_by_id IS NULL AND NOT ${DISCARDED}
  RETURNING j.*
), ${readyText(`retried WHERE state = 'scheduled'`)}, ${timedText(`retried WHERE state = 'delayed'`)},
${replayedText(`retried WHERE $9::text = 'dead_letter'`, '$11::text')}, forgotten AS (
  DELETE FROM millrace.cancel_requests r USING retried j WHERE r.org_id = j.org_id AND r.seq = j.seq
), dropped AS (
  ${recordedText({
    source: 'retried WHERE $12::bool',
    from: `'retrying'`,
    to: `'failed'`,
    reason: `'retry_dropped'`,
    actor: '$11::text',
    n: 'event_count - 1',
  })}
), recorded AS (
  ${recordedText({
    source: 'retried',
    from: '$9::text',
    to: 'state',
    reason: '$10::text',
    actor: '$11::text',
    groupBy: ['state'],
  })}
), ${auditedText({
    source: 'retried',
    event: 'job.retried',
    orgId: '$1::uuid',
    actor: '$11::text',
    requestId: '$13::text',
    details: `json_strip_nulls(json_build_object('from', $9::text, 'reset_attempts', CASE WHEN $8::bool THEN true END, 'reason', nullif($14::text, '')))`,
  })}
SELECT ceil(extract(epoch FROM run_at) * 1000)::float8 AS run_at_ms, attempt_slot,
  floor(extract(epoch FROM updated_at) * 1000)::float8 AS updated_at_ms,
  json_build_object(${LOGGED}, 'from', $9::text, 'to', j.state, 'reason', $10::text, 'failure', NULL) AS moved FROM retried j`,
);

/** Gives a failed job another attempt on request. */
export async function retryJob(db: Queryable, params: RetryParams): Promise<RetriedJob> {
  for (;;) {
    const [job] = await run<Found>(db, READ, [params.orgId, params.id, params.projectId]);
    if (job === undefined) return { kind: 'not_found' };
    if (params.priority !== null && isReserved(job.job_type)) return { kind: 'reserved', type: job.job_type };
    const decision = decideManualRetry({
      job: { state: job.state, attemptsStarted: job.attempts_started, maxAttempts: job.max_attempts },
      resetAttempts: params.resetAttempts,
      delayMs: params.delayMs,
      ...(params.takesOver === true ? { pendingMs: job.pending_ms } : {}),
      policy: job.policy,
      random: params.random ?? Math.random(),
    });
    if (decision.kind !== 'queued') return { kind: decision.kind, state: job.state };
    // A corrected job replaces it, or its dead letter was discarded.
    if (job.replaced_by_id !== null || job.is_discarded) return { kind: 'not_retriable', state: job.state };
    const { transition, maxAttempts } = decision;
    const keepsTime = decision.dropsRetry && params.delayMs === null && decision.delayMs > 0;
    const [written] = await run<Written>(db, RETRY, [
      params.orgId,
      job.seq,
      job.event_count,
      transition.to,
      keepsTime ? null : Math.ceil(decision.delayMs),
      params.priority,
      maxAttempts,
      decision.startsRound,
      transition.from,
      transition.reason,
      params.actor,
      decision.dropsRetry,
      params.requestId ?? null,
      params.reason ?? null,
    ]);
    if (written !== undefined)
      return {
        kind: 'queued',
        state: transition.to,
        scheduledFor: new Date(written.run_at_ms),
        attemptSlot: written.attempt_slot,
        updatedAt: new Date(written.updated_at_ms),
        moved: written.moved,
      };
    // Another transaction moved the job in the meantime, so read it again.
  }
}
