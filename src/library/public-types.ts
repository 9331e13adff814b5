// The engine's and the services' words that users of the library meet.
export type { EngineEvents } from '../engine/events.ts';
export type { JobContext, LogLevel, SpawnOptions } from '../engine/job-context.ts';
export type { Handler, Registration, RegistrationResult } from '../engine/registry.ts';
export type { JobCounts } from '../ledger/count-jobs.ts';
export type { Schedule } from '../ledger/schedules.ts';
export type { JobFilter, SearchPage } from '../ledger/search-jobs.ts';
export type { BatchCancellationResult, CancellationResult } from '../services/cancel-job.ts';
export type { Explanation, Obstacle } from '../services/explain-job.ts';
export type { FailureDetails, FailureInfo } from '../services/inspect-failure.ts';
export type { JobView } from '../services/read-job.ts';
export type { RetryResult } from '../services/retry-job.ts';
export type { RejectedSubmission, SubmissionResult } from '../services/submission-result.ts';
export type { BatchResult } from '../services/submit-many.ts';
