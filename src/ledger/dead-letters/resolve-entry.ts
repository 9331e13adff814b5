import type { Owner } from '../../core/owner.ts';
import type { Policy } from '../../core/policy.ts';
import type { JobState } from '../../core/states.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import type { Time } from '../reads/job-row.ts';
import { type DeadLetter, ENTRY, type EntryRow, toDeadLetter } from './entry-row.ts';
import { getEntry } from './read-entries.ts';

/** What a job that takes the place of another has to have in common with it. */
export type DeadJob = {
  readonly payload: string | null;
  readonly isBytes: boolean;
  readonly priority: number;
  readonly tags: Readonly<Record<string, string>> | null;
  readonly correlationId: string;
  readonly callbackUrl: string | null;
  readonly traceparent: string | null;
  readonly policyId: number;
  readonly policy: Policy;
  readonly limit: {
    readonly key: string;
    readonly concurrency: number | null;
    readonly rate: number | null;
    readonly perMs: number | null;
  } | null;
};

// The job is locked before its entry, in the order in which the statements that end and retry jobs lock them.
const lockText = (
  lock: string,
) => `SELECT j.seq, j.state, j.worker_id IS NOT NULL AS is_claimed FROM millrace.jobs j WHERE j.id = $2::uuid AND (j.org_id = $1::uuid) IS TRUE
  AND ($3::uuid IS NULL OR j.project_id = $3::uuid) ${lock}`;

const LOCK_FREE_JOB = statement('lock_free_dead_job', lockText('FOR NO KEY UPDATE SKIP LOCKED'));
const FIND_JOB = statement('find_dead_job', lockText(''));

const lockEntryText = (lock: string) => `WITH j AS MATERIALIZED (${lockText(lock)})
  SELECT ${ENTRY}, d.undo_until > millrace.clock() AS may_restore, j.seq IS NOT NULL AS has_job,
    j.seq IS NULL AND EXISTS (SELECT FROM millrace.jobs h WHERE h.id = d.job_id) AS is_held
  FROM millrace.dead_letters d LEFT JOIN j ON true
  WHERE d.job_id = $2::uuid AND (d.org_id = $1::uuid) IS TRUE AND ($3::uuid IS NULL OR d.project_id = $3::uuid)`;

const LOCK_ENTRY = statement('lock_dead_letter', `${lockEntryText('FOR NO KEY UPDATE')} FOR NO KEY UPDATE OF d`);
const LOCK_FREE_ENTRY = statement(
  'lock_free_dead_letter',
  `${lockEntryText('FOR NO KEY UPDATE SKIP LOCKED')} FOR NO KEY UPDATE OF d SKIP LOCKED`,
);

export type LockedEntry = DeadLetter & { readonly hasJob: boolean; readonly mayRestore: boolean };

/** `held`: another transaction has locked the job, and the caller does not wait. */
export type EntryLock = { kind: 'locked'; entry: LockedEntry } | { kind: 'not_found' | 'held' };

/** Locks a job and its entry for the transaction of `db`. */
export async function lockEntry(
  db: Queryable,
  { orgId, projectId }: Owner,
  jobId: string,
  { waits = true }: { waits?: boolean } = {},
): Promise<EntryLock> {
  const values = [orgId, jobId, projectId];
  const [row] = await run<LockedRow>(db, waits ? LOCK_ENTRY : LOCK_FREE_ENTRY, values);
  if (row === undefined) return { kind: waits || (await getEntry(db, { orgId, projectId }, jobId)) === null ? 'not_found' : 'held' };
  if (row.is_held && !waits) return { kind: 'held' };
  return { kind: 'locked', entry: { ...toDeadLetter(row), hasJob: row.has_job, mayRestore: row.may_restore === true } };
}

type LockedRow = EntryRow & { may_restore: boolean | null; has_job: boolean; is_held: boolean };

/** Locks a job without waiting. `isClaimed`: a worker holds it, and may run it already. */
export async function lockFreeJob(
  db: Queryable,
  { orgId, projectId }: Owner,
  jobId: string,
): Promise<{ kind: 'locked'; state: JobState; isClaimed: boolean } | { kind: 'not_found' | 'held' }> {
  const values = [orgId, jobId, projectId];
  const [job] = await run<{ state: JobState; is_claimed: boolean }>(db, LOCK_FREE_JOB, values);
  if (job !== undefined) return { kind: 'locked', state: job.state, isClaimed: job.is_claimed };
  return { kind: (await run(db, FIND_JOB, values)).length > 0 ? 'held' : 'not_found' };
}

const READ_JOB = statement(
  'read_dead_job',
  `SELECT j.payload::text AS payload, j.payload_bytes IS NOT NULL AS is_bytes, j.priority, j.tags::text AS tags,
     coalesce(j.correlation_id, j.request_id, j.id::text) AS correlation_id, j.callback_url, j.traceparent, j.policy_id, p.body AS policy,
     (SELECT json_build_object('key', l.key, 'concurrency', l.concurrency, 'rate', l.rate, 'perMs', l.per_ms)
      FROM millrace.limits l WHERE l.id = j.limit_id) AS job_limit
   FROM millrace.jobs j JOIN millrace.policies p ON p.id = j.policy_id WHERE j.org_id = $1::uuid AND j.seq = $2::int8`,
);

type JobRow = {
  payload: string | null;
  is_bytes: boolean;
  priority: number;
  tags: string | null;
  correlation_id: string;
  callback_url: string | null;
  traceparent: string | null;
  policy_id: number;
  policy: Policy;
  job_limit: DeadJob['limit'];
};

/** Returns null if the job was removed. */
export async function readDeadJob(db: Queryable, { orgId, seq }: { orgId: string; seq: number }): Promise<DeadJob | null> {
  const [row] = await run<JobRow>(db, READ_JOB, [orgId, seq]);
  if (row === undefined) return null;
  return {
    payload: row.payload,
    isBytes: row.is_bytes,
    priority: row.priority,
    tags: row.tags === null ? null : (JSON.parse(row.tags) as Record<string, string>),
    correlationId: row.correlation_id,
    callbackUrl: row.callback_url,
    traceparent: row.traceparent,
    policyId: row.policy_id,
    policy: row.policy,
    limit: row.job_limit,
  };
}

const DISCARD = statement(
  'discard_dead_letter',
  `UPDATE millrace.dead_letters d SET status = 'discarded', resolved_at = millrace.clock(), resolved_by = $3::text, operation_id = $5::uuid,
     undo_until = millrace.clock() + $4::float8 * interval '1 ms'
   WHERE d.org_id = $1::uuid AND d.seq = $2::int8 AND d.status = 'open' RETURNING undo_until`,
);

export type Discarded = { orgId: string; seq: number; actor: string | null; undoWindowMs: number; operationId: string | null };

/** Closes an open entry that the transaction has locked. Returns until when that can be undone. */
export async function discardEntry(db: Queryable, { orgId, seq, actor, undoWindowMs, operationId }: Discarded): Promise<Date> {
  const [row] = await run<{ undo_until: Time }>(db, DISCARD, [orgId, seq, actor, undoWindowMs, operationId]);
  if (row === undefined) throw new Error('The entry is not open.');
  return new Date(row.undo_until);
}

const REOPEN = statement(
  'reopen_dead_letter',
  `UPDATE millrace.dead_letters d SET status = 'open', resolved_at = NULL, resolved_by = NULL, undo_until = NULL, operation_id = NULL,
     replaced_by = NULL
   WHERE d.org_id = $1::uuid AND d.seq = $2::int8 AND ($3::uuid IS NULL OR d.operation_id = $3::uuid) RETURNING 1 AS one`,
);

/** Opens an entry again. With an operation, only if that closed it. Returns whether it did. */
export async function reopenEntry(
  db: Queryable,
  { orgId, seq }: { orgId: string; seq: number },
  operationId: string | null = null,
): Promise<boolean> {
  return (await run(db, REOPEN, [orgId, seq, operationId])).length > 0;
}

const REPLACE = statement(
  'replace_dead_job',
  `WITH entry AS (
     UPDATE millrace.dead_letters d SET status = 'fixed_forward', resolved_at = millrace.clock(), resolved_by = $4::text, replaced_by = $5::uuid
     WHERE d.org_id = $1::uuid AND d.seq = $2::int8 RETURNING d.job_id
   ), old AS (
     UPDATE millrace.jobs j SET replaced_by_id = $5::uuid WHERE j.org_id = $1::uuid AND j.seq = $2::int8
   )
   UPDATE millrace.jobs j SET replaces_id = $3::uuid WHERE j.id = $5::uuid AND j.org_id = $1::uuid`,
);

/** Connects a dead job with the new job that does its work. */
export async function replaceDeadJob(
  db: Queryable,
  { orgId, seq, jobId, actor, newJobId }: { orgId: string; seq: number; jobId: string; actor: string | null; newJobId: string },
): Promise<void> {
  await run(db, REPLACE, [orgId, seq, jobId, actor, newJobId]);
}

const DISCONNECT = statement(
  'disconnect_dead_job',
  `UPDATE millrace.jobs j SET replaced_by_id = NULL WHERE j.org_id = $1::uuid AND j.seq = $2::int8 AND j.replaced_by_id IS NOT NULL`,
);

/** The dead job has no successor any more: that was cancelled before it started. */
export async function disconnectDeadJob(db: Queryable, { orgId, seq }: { orgId: string; seq: number }): Promise<void> {
  await run(db, DISCONNECT, [orgId, seq]);
}
