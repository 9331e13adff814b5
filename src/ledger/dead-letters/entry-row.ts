import type { Failure } from '../../core/failure.ts';
import type { DeadLetterStatus } from '../../core/governance/dead-letter.ts';
import { dateOf, type Time } from '../reads/job-row.ts';

/** A dead-lettered job as an operator sees it. */
export type DeadLetter = {
  readonly jobId: string;
  readonly seq: number;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly type: string;
  readonly originQueue: string;
  readonly category: string | null;
  readonly status: DeadLetterStatus;
  readonly failedAt: Date;
  readonly attempts: number;
  /** Why it died, as its history says. */
  readonly reason: string;
  readonly error: Failure;
  readonly fingerprint: string;
  readonly resolvedAt: Date | null;
  readonly resolvedBy: string | null;
  readonly undoUntil: Date | null;
  readonly replacedByJobId: string | null;
};

export const ENTRY = `d.job_id, d.seq, d.org_id, d.project_id, d.job_type, d.queue, d.category, d.status, d.failed_at, d.attempts, d.reason,
  d.error::text AS error, d.fingerprint, d.resolved_at, d.resolved_by, d.undo_until, d.replaced_by`;

export type EntryRow = {
  job_id: string;
  seq: number | string;
  org_id: string;
  project_id: string | null;
  job_type: string;
  queue: string;
  category: string | null;
  status: DeadLetterStatus;
  failed_at: Time;
  attempts: number;
  reason: string;
  error: string;
  fingerprint: string;
  resolved_at: Time | null;
  resolved_by: string | null;
  undo_until: Time | null;
  replaced_by: string | null;
};

export const toDeadLetter = (row: EntryRow): DeadLetter => ({
  jobId: row.job_id,
  seq: Number(row.seq),
  orgId: row.org_id,
  projectId: row.project_id,
  type: row.job_type,
  originQueue: row.queue,
  category: row.category,
  status: row.status,
  failedAt: new Date(row.failed_at),
  attempts: row.attempts,
  reason: row.reason,
  error: JSON.parse(row.error) as Failure,
  fingerprint: row.fingerprint,
  resolvedAt: dateOf(row.resolved_at),
  resolvedBy: row.resolved_by,
  undoUntil: dateOf(row.undo_until),
  replacedByJobId: row.replaced_by,
});
