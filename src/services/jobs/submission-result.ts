import { AppError, andMore, type Issue } from '../../core/errors.ts';
import type { JobState } from '../../core/states.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';

/** The result of a submission: a new job, or the job that already had its idempotency key or its unique key. */
export type SubmissionResult = (Accepted | Duplicate | NotWritten) & {
  /** The id of the job. */
  jobId: string;
  /** The state of the job. */
  state: JobState;
  /** When the job was submitted. */
  createdAt: Date;
  /** When the job may start. Null if it need not wait for a time. */
  scheduledFor: Date | null;
  /** For a governed job that was submitted without a key: the key that was derived from its content. */
  idempotencyKey?: string;
};

type Accepted = {
  status: 'ACCEPTED';
  /** The waiting job with the same unique key that was cancelled for this one. */
  replacedJobId?: string;
};
type Duplicate = { status: 'DUPLICATE'; existingJobId: string };
/** There is a job with the same unique key, and no new one. UPDATED: it got the payload of this submission. */
type NotWritten = { status: 'SKIPPED' | 'UPDATED'; existingJobId: string };

export function acceptedResult(written: Extract<Written, { kind: 'accepted' }>): SubmissionResult {
  const { id, state, createdAt, scheduledFor, replacedId } = written;
  const result = { jobId: id, status: 'ACCEPTED', state, createdAt, scheduledFor } as const;
  return replacedId === undefined ? result : { ...result, replacedJobId: replacedId };
}

/** Shows the key of a job if it was derived. Callers know the keys that they gave. */
export function withDerivedKey<R extends SubmissionResult | RejectedSubmission>(result: R, { job }: Pick<JobToWrite, 'job'>): R {
  if (job.hasDerivedKey !== true || result.status === 'REJECTED') return result;
  return { ...result, idempotencyKey: job.idempotencyKey };
}

/** A submission of a batch that is not valid. */
export type RejectedSubmission = {
  /** There is no job. */
  jobId: null;
  /** Tells it from the results with a job. */
  status: 'REJECTED';
  /** Why it was rejected. */
  error: AppError;
};

/** The error for an invalid submission. `details` names every member that is wrong. */
export function invalidSubmission(issues: readonly Issue[]): AppError {
  const first = issues[0];
  const message = first === undefined ? undefined : `The submission is not valid: ${sentenceOf(first)}${andMore(issues)}.`;
  return new AppError('INVALID_REQUEST', { message, details: issues });
}

const sentenceOf = ({ field, message }: Issue): string => (message.startsWith(field) ? message : `${field} ${message}`);

export function conflictingSubmission(existingId: string): AppError {
  const message = `The idempotency key was used for a different request, which became job ${existingId}.`;
  return new AppError('DUPLICATE', { message, details: [{ field: 'idempotencyKey', code: 'DUPLICATE', message }] });
}
