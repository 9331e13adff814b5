// The types of the engine and the services that users of the library need.

export type { AssigningJob, Assignments, AssignmentWriter } from '../core/governance/assignments.ts';
export type { EngineEvents } from '../engine/events.ts';
export type { ArtifactBytes, ArtifactOptions, ArtifactReference, JobArtifacts, ReadArtifact } from '../engine/work/job-artifacts.ts';
export type { AuditTrail, JobContext, LogLevel, RelatedResult, ResultsOptions, SpawnOptions } from '../engine/work/job-context.ts';
export type { Handler, Registration, RegistrationResult } from '../engine/work/registry.ts';
export type { UserClient as Queryable } from '../ledger/driver/user-client.ts';
export type { Schedule } from '../ledger/queues/schedules.ts';
export type { JobCounts } from '../ledger/reads/count-jobs.ts';
export type { JobFilter, SearchPage } from '../ledger/search/search-jobs.ts';
export type { PublishedTasks, PublishOptions, TaskToPublish } from '../services/ingest/publish-tasks.ts';
export type { BatchFailure, BatchProgress } from '../services/jobs/batch-progress.ts';
export type { BatchCancellationResult, CancellationResult, CancelTarget } from '../services/jobs/cancel-job.ts';
export type { LostNotification } from '../services/jobs/enqueue-best-effort.ts';
export type { Explanation, Obstacle } from '../services/jobs/explain-job.ts';
export type { JobNews, LogNews, ProgressNews, StateNews } from '../services/jobs/follow-job.ts';
export type { FailureDetails, FailureInfo } from '../services/jobs/inspect-failure.ts';
export type { JobView } from '../services/jobs/read-job.ts';
export type { LogPage } from '../services/jobs/read-logs.ts';
export type { RetryResult } from '../services/jobs/retry-job.ts';
export type { RejectedSubmission, SubmissionResult } from '../services/jobs/submission-result.ts';
export type { BatchResult } from '../services/jobs/submit-many.ts';
