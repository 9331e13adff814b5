import { AppError, andMore, type Issue } from '../../core/errors.ts';
import type { JobState } from '../../core/states.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';

/** The result of a submission. */
export type SubmissionResult =
  | { jobId: string; status: 'ACCEPTED'; state: JobState; createdAt: Date; scheduledFor: Date | null }
  | {
      jobId: string;
      status: 'DUPLICATE';
      existingJobId: string;
      state: JobState;
      createdAt: Date;
      scheduledFor: Date | null;
    };

export function acceptedResult({ id, state, createdAt, scheduledFor }: Extract<Written, { kind: 'accepted' }>): SubmissionResult {
  return { jobId: id, status: 'ACCEPTED', state, createdAt, scheduledFor };
}

export type RejectedSubmission = { jobId: null; status: 'REJECTED'; error: AppError };

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
