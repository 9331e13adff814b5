export type { BackoffPolicy, CustomBackoff } from './core/backoff.ts';
export { AppError, type ErrorCode, type Issue, isAppError } from './core/errors.ts';
export {
  type Failure,
  JobCancelledError,
  JobTimeoutError,
  LeaseLostError,
  PermanentError,
  PostponeError,
  TemporaryError,
} from './core/failure.ts';
export type { Job, JobResult, Progress, StateTransition } from './core/job.ts';
export type { JobLimit, LimitSubmission } from './core/limit.ts';
export { PRIORITIES, type Priority } from './core/priority.ts';
export { RegistrationError } from './core/registration-error.ts';
export { isTerminal, JOB_STATES, type JobState } from './core/states.ts';
export type { Submission } from './core/submission.ts';
export { Millrace } from './library/millrace.ts';
export type { OpenOptions } from './library/open-options.ts';
export type * from './library/public-types.ts';
export type { ContextOf, JobId, JobOf, JobTypes, Submitted } from './library/typed-jobs.ts';
