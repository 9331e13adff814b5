import type { DependencyType } from '../../core/dependencies.ts';
import type { Failure } from '../../core/failure.ts';
import type { DeadLetterStatus } from '../../core/governance/dead-letter.ts';
import { currentAttempt, type Job, type JobSummary, type Progress } from '../../core/job.ts';
import type { JobLimit } from '../../core/limit.ts';
import type { Payload } from '../../core/payload.ts';
import { priorityName } from '../../core/priority.ts';
import type { JobState } from '../../core/states.ts';

/** Whether a live worker has leased job `j` without having started it. Only claimed jobs pay for the lookup. */
export const IS_LEASED = `CASE WHEN j.state = 'scheduled' AND j.worker_id IS NOT NULL THEN
    coalesce((SELECT w.stopped_at IS NULL AND w.beat_at > millrace.clock() - interval '1 ms' * (
      SELECT (p.body->>'leaseMs')::float8 FROM millrace.policies p WHERE p.id = j.policy_id)
     FROM millrace.workers w WHERE w.id = j.worker_id), false) ELSE false END`;

// JSON leaves the database as text, so that numbers keep every digit and only a caller that needs it parses it. Only the few jobs with
// dependencies, a parent or a limit pay for these lookups. Payloads and results may be large and are not among these columns.
export const JOB_COLUMNS = `
  j.id, j.seq, j.org_id, j.job_type, j.queue, j.state, j.priority, j.attempts_started, j.attempt_slot, j.max_attempts,
  j.created_at, j.updated_at, j.run_at, j.scheduled_at, j.started_at, j.completed_at, j.lifetime_deadline, j.planned_at,
  j.last_error::text AS last_error, j.tags::text AS tags, j.correlation_id,
  j.request_id, j.category, j.project_id, j.traceparent,
  j.idempotency_key, j.callback_url, j.dependency_type, j.replaces_id, j.replaced_by_id,
  CASE WHEN j.state = 'dead_letter' THEN
    (SELECT d.status FROM millrace.dead_letters d WHERE d.org_id = j.org_id AND d.seq = j.seq) END AS dead_letter_status,
  ${IS_LEASED} AS is_leased, c.requested_at AS cancel_requested_at,
  g.percent, g.message AS progress_message, g.updated_at AS progress_at,
  CASE WHEN j.parent_seq IS NOT NULL THEN
    (SELECT p.id FROM millrace.jobs p WHERE p.org_id = j.org_id AND p.seq = j.parent_seq) END AS parent_id,
  CASE WHEN j.dependency_type IS NOT NULL THEN
    (SELECT string_agg(t.id::text, ',' ORDER BY t.seq) FROM millrace.dependencies d
     JOIN millrace.jobs t ON t.org_id = d.org_id AND t.seq = d.depends_on_seq
     WHERE d.org_id = j.org_id AND d.job_seq = j.seq) END AS depends_on,
  CASE WHEN j.limit_id IS NOT NULL THEN
    (SELECT json_build_object('key', l.key, 'concurrency', l.concurrency, 'rate', l.rate, 'perMs', l.per_ms)::text
     FROM millrace.limits l WHERE l.id = j.limit_id) END AS job_limit`;

/** The payload of job `j` where `wanted` holds. Otherwise PostgreSQL neither reads nor sends it. */
export const payloadColumns = (wanted: string): string =>
  `CASE WHEN ${wanted} THEN j.payload::text END AS payload, CASE WHEN ${wanted} THEN j.payload_bytes END AS payload_bytes`;

// The progress of an attempt is shown until the next attempt is granted.
export const JOB_JOINS = `
  LEFT JOIN millrace.progress g ON g.org_id = j.org_id AND g.seq = j.seq
    AND j.attempts_started >= j.attempt_slot AND g.updated_at >= coalesce(j.scheduled_at, j.created_at)
  LEFT JOIN millrace.cancel_requests c ON c.org_id = j.org_id AND c.seq = j.seq`;

export type Time = Date | string;

export type JobRow = {
  id: string;
  seq: number | string;
  org_id: string;
  job_type: string;
  queue: string;
  state: JobState;
  is_leased: boolean;
  priority: number;
  attempts_started: number;
  attempt_slot: number;
  max_attempts: number;
  created_at: Time;
  updated_at: Time;
  run_at: Time;
  scheduled_at: Time | null;
  started_at: Time | null;
  completed_at: Time | null;
  lifetime_deadline: Time | null;
  planned_at: Time | null;
  last_error: string | null;
  tags: string | null;
  correlation_id: string | null;
  request_id: string | null;
  category: string | null;
  project_id: string | null;
  traceparent: string | null;
  idempotency_key: string | null;
  callback_url: string | null;
  dependency_type: DependencyType | null;
  cancel_requested_at: Time | null;
  percent: number | null;
  progress_message: string | null;
  progress_at: Time | null;
  parent_id: string | null;
  replaces_id: string | null;
  replaced_by_id: string | null;
  dead_letter_status: DeadLetterStatus | null;
  depends_on: string | null;
  job_limit: string | null;
};

export type PayloadRow = JobRow & { payload: string | null; payload_bytes: Uint8Array | null };

export const toJobWithPayload = (row: PayloadRow): Job => ({
  ...toJob(row),
  payload: payloadOf(row.payload, row.payload_bytes),
});

export function toJob(row: JobRow): JobSummary {
  return {
    id: row.id,
    seq: Number(row.seq),
    orgId: row.org_id,
    type: row.job_type,
    queue: row.queue,
    state: row.state,
    isLeased: row.is_leased,
    priority: priorityName(row.priority),
    attempt: currentAttempt(row.attempts_started),
    attemptsStarted: row.attempts_started,
    attemptSlot: row.attempt_slot,
    maxAttempts: row.max_attempts,
    ...timesOf(row),
    ...(row.percent === null ? {} : { progress: progressOf(row, row.percent) }),
    lastFailure: parse<Failure>(row.last_error),
    tags: parse<Record<string, string>>(row.tags),
    ...originOf(row),
    idempotencyKey: row.idempotency_key,
    callbackUrl: row.callback_url,
    dependsOn: row.depends_on === null ? [] : row.depends_on.split(','),
    dependencyType: row.dependency_type,
    parentId: row.parent_id,
    deadLetterStatus: row.dead_letter_status,
    replacesJobId: row.replaces_id,
    replacedByJobId: row.replaced_by_id,
    limit: parse<JobLimit>(row.job_limit),
  };
}

function originOf(row: JobRow) {
  const requestId = row.request_id ?? row.id;
  const { category, project_id: projectId, traceparent } = row;
  return { requestId, correlationId: row.correlation_id ?? requestId, category, projectId, traceparent };
}

/** A statement reads the clock when it begins, and may end an attempt that another one started a moment after. */
function endOf({ started_at, completed_at }: JobRow): Date | null {
  const [start, end] = [dateOf(started_at), dateOf(completed_at)];
  return start !== null && end !== null && end < start ? start : end;
}

function timesOf(row: JobRow) {
  return {
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
    scheduledFor: row.state === 'pending' ? null : new Date(row.run_at),
    scheduledAt: dateOf(row.scheduled_at),
    startedAt: dateOf(row.started_at),
    completedAt: endOf(row),
    cancelRequestedAt: dateOf(row.cancel_requested_at),
    lifetimeDeadlineAt: dateOf(row.lifetime_deadline),
    plannedAt: dateOf(row.planned_at),
  };
}

function progressOf(row: JobRow, percent: number): Progress {
  return { percent, message: row.progress_message, updatedAt: new Date(row.progress_at ?? 0) };
}

export const payloadOf = (text: string | null, bytes: Uint8Array | null): Payload =>
  bytes === null ? { kind: 'json', text: text ?? 'null' } : { kind: 'bytes', bytes };

const parse = <T>(text: string | null): T | null => (text === null ? null : (JSON.parse(text) as T));

/** A user's client may return times as text. */
export const dateOf = (time: Time | null): Date | null => (time === null ? null : new Date(time));
