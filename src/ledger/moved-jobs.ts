import type { Failure } from '../core/failure.ts';
import type { JobState } from '../core/states.ts';
import type { Reason } from '../core/transitions.ts';

/** What a log line says about a job. */
export type LoggedJob = {
  jobId: string;
  type: string;
  attempt: number;
  orgId: string;
  tags: Record<string, string> | null;
  createdAtMs: number;
  correlationId: string | null;
  projectId: string | null;
};

/** A change of state that no attempt made. */
export type MovedJob = LoggedJob & {
  from: JobState;
  to: JobState;
  reason: Reason;
  /** Null unless the job failed. */
  failure: Failure | null;
  /** A worker had claimed the job and not started it. */
  isLeased?: boolean;
};

/** The members of a `LoggedJob`, for `json_build_object` over job `j`. */
export const LOGGED = `'jobId', j.id, 'type', j.job_type, 'attempt', j.attempts_started, 'orgId', j.org_id, 'tags', j.tags,
      'createdAtMs', date_part('epoch', j.created_at) * 1000, 'correlationId', coalesce(j.correlation_id, j.request_id), 'projectId', j.project_id`;
