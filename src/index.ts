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
export type { CategoryName } from './core/governance/categories.ts';
export {
  type CompleteTask,
  type DownloadTask,
  type IngestHandler,
  type IngestHandlerContext,
  type IngestHandlerSource,
  type IngestManifest,
  type IngestResource,
  type IngestSummary,
  registerIngestHandler,
  type TaskStorage,
  type Texts,
} from './core/ingest/handler.ts';
export type { Job, JobResult, Progress, StateTransition } from './core/job.ts';
export type { LogLine } from './core/job-log.ts';
export type { JobLimit, LimitSubmission } from './core/limit.ts';
export { PRIORITIES, type Priority } from './core/priority.ts';
export { RegistrationError } from './core/registration-error.ts';
export { isTerminal, JOB_STATES, type JobState } from './core/states.ts';
export type { Submission } from './core/submission.ts';
export type { DebounceSubmission, OnConflict, UniqueSubmission, UniqueUntil } from './core/unique.ts';
export type { Batch, Batches, BatchOutcome, SubmitBatchOptions, WaitForBatchOptions } from './library/batch.ts';
export type { BestEffortResult, EnqueueBestEffort, NotificationSubmission } from './library/best-effort.ts';
export type { CategoryOptions } from './library/category-options.ts';
export { Millrace } from './library/millrace.ts';
export type { ObjectsOption, S3Option } from './library/objects-option.ts';
export type { OpenOptions } from './library/open-options.ts';
export { openProducer, type TaskProducer } from './library/producer.ts';
export type * from './library/public-types.ts';
export type { ContextOf, JobId, JobOf, JobTypes, Submitted } from './library/typed-jobs.ts';
