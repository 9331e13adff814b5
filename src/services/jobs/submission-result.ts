import { AppError, andMore, type Issue } from '../../core/errors.ts';
import type { JobState } from '../../core/states.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';

/** The result of a submission: a new job, or the job that already had its idempotency key. */
export type SubmissionResult = (Accepted | Duplicate) & {
  /** The id of the job. */
  jobId: string;
  /** The state of the job. */
  state: JobState;
  /** When the job was submitted. */
  createdAt: Date;
  /** When the job may start. Null if it need not wait for a time. */
  scheduledFor: Date | null;
};

type Accepted = { status: 'ACCEPTED' };
type Duplicate = { status: 'DUPLICATE'; existingJobId: string };

export function acceptedResult({ id, state, createdAt, scheduledFor }: Extract<Written, { kind: 'accepted' }>): SubmissionResult {
  return { jobId: id, status: 'ACCEPTED', state, createdAt, scheduledFor };
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
