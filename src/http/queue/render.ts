import type { Static } from 'typebox';
import { formatDuration } from '../../core/duration.ts';
import type { AppError } from '../../core/errors.ts';
import type { Failure } from '../../core/failure.ts';
import { DEAD_LETTER_QUEUE } from '../../core/governance/dead-letter.ts';
import type { Progress, StateTransition } from '../../core/job.ts';
import type { JobLimit } from '../../core/limit.ts';
import { publicFailure } from '../../core/public-failure.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { JobReport } from '../../services/jobs/read-job.ts';
import type { RejectedSubmission, SubmissionResult } from '../../services/jobs/submission-result.ts';
import { inSentNames } from './read-submission.ts';
import type { ApiError } from './schemas/error.ts';
import type { ErrorInfo, JobResult, JobStatus } from './schemas/job.ts';
import type { SubmissionResult as Accepted, BatchRow } from './schemas/submission.ts';
import { CATEGORY_WORDS, inWireNames, STATE_WORDS } from './words.ts';

export const timeOrNull = (date: Date | null): string | null => (date === null ? null : formatTimestamp(date));

const renderIssues = ({ details }: AppError) =>
  details.map(({ field, code, message }) => ({
    field: code === 'UNKNOWN_MEMBER' ? field : inWireNames(field),
    code,
    message: inWireNames(message),
  }));

export function renderError(error: AppError, requestId: string): Static<typeof ApiError> {
  const { code, quota } = error;
  const message = error.mayHaveHappened ? `${error.message} ${error.remedy}` : error.message;
  const body = { code, message: inWireNames(message), details: renderIssues(error), request_id: requestId };
  if (quota === undefined) return body;
  const { limit, current, maximum, retryAfterMs } = quota;
  return { ...body, quota: { limit, current, maximum, retry_after: formatDuration(retryAfterMs) } };
}

export function renderSubmission(result: SubmissionResult): Static<typeof Accepted> {
  const { jobId, status, state, createdAt, scheduledFor } = result;
  const created_at = formatTimestamp(createdAt);
  // A job that is ready immediately has the same time for both.
  const scheduled_for = scheduledFor === createdAt ? created_at : timeOrNull(scheduledFor);
  const key = result.idempotencyKey === undefined ? {} : { idempotency_key: result.idempotencyKey };
  const body = { job_id: jobId, status, state: STATE_WORDS[state], created_at, scheduled_for, ...key };
  if (status !== 'ACCEPTED') return { ...body, existing_job_id: result.existingJobId };
  return result.replacedJobId === undefined ? body : { ...body, replaced_job_id: result.replacedJobId };
}

/** `sent` is the submission as the caller wrote it. */
export function renderRow(result: SubmissionResult | RejectedSubmission, sent: unknown): Static<typeof BatchRow> {
  if (result.status !== 'REJECTED') return renderSubmission(result);
  const refusal = inSentNames(result.error, sent);
  const { code, message } = refusal;
  const error = { code, message: inWireNames(message), details: renderIssues(refusal) };
  return { job_id: null, status: 'REJECTED', state: null, created_at: null, scheduled_for: null, error };
}

export type Sight = { seesStack: boolean };

export function renderJob(job: JobReport, sight: Sight): Static<typeof JobStatus> {
  return {
    job_id: job.id,
    type: job.type,
    state: STATE_WORDS[job.state],
    attempt: job.attempt,
    ...renderTimes(job),
    ...(job.progress === undefined ? {} : { progress: renderProgress(job.progress) }),
    ...(job.result === undefined ? {} : { result: renderResult(job.result, sight) }),
    ...(job.history === undefined ? {} : { history: job.history.map(renderTransition) }),
    priority: job.priority,
    tags: { ...job.tags },
    correlation_id: job.correlationId,
    request_id: job.requestId,
    category: job.category,
    project_id: job.projectId,
    traceparent: job.traceparent,
    queue: job.state === 'dead_letter' ? DEAD_LETTER_QUEUE : job.queue,
    origin_queue: job.state === 'dead_letter' ? job.queue : null,
    dead_letter_status: job.deadLetterStatus,
    replaces_job_id: job.replacesJobId,
    replaced_by_job_id: job.replacedByJobId,
    max_attempts: job.maxAttempts,
    idempotency_key: job.idempotencyKey,
    callback_url: job.callbackUrl,
    depends_on: [...job.dependsOn],
    dependency_type: job.dependencyType,
    parent_id: job.parentId,
    limit: job.limit === null ? null : renderLimit(job.limit),
  };
}

const renderLimit = ({ key, concurrency, rate, perMs }: JobLimit) => ({
  key,
  concurrency,
  rate,
  per: perMs === null ? null : formatDuration(perMs),
});

function renderTimes(job: JobReport) {
  return {
    created_at: formatTimestamp(job.createdAt),
    updated_at: formatTimestamp(job.updatedAt),
    scheduled_for: timeOrNull(job.scheduledFor),
    scheduled_at: timeOrNull(job.scheduledAt),
    planned_at: timeOrNull(job.plannedAt),
    started_at: timeOrNull(job.startedAt),
    completed_at: timeOrNull(job.completedAt),
    cancel_requested_at: timeOrNull(job.cancelRequestedAt),
  };
}

function renderProgress({ percent, message, updatedAt }: Progress) {
  return { percent, message, updated_at: formatTimestamp(updatedAt) };
}

const CANCELLED: Failure = { category: 'CANCELLED', code: 'CANCELLED', message: 'the job was cancelled' };

function renderResult(result: NonNullable<JobReport['result']>, sight: Sight): Static<typeof JobResult> {
  const { status, output, error, durationMs, attempt } = result;
  const rest = { status, duration_ms: durationMs, attempt };
  if (status === 'SUCCESS') return { ...rest, output: renderOutput(output) };
  return { ...rest, error: renderFailure(error ?? CANCELLED, sight) };
}

const renderOutput = (output: unknown): unknown =>
  output instanceof Uint8Array ? { $bytes: Buffer.from(output).toString('base64') } : output;

export function renderFailure(failure: Failure, { seesStack }: Sight): Static<typeof ErrorInfo> {
  const { category, code, message, stackTrace } = publicFailure(failure);
  const info = { category: CATEGORY_WORDS[category], code, message };
  return seesStack && stackTrace !== undefined ? { ...info, stack_trace: stackTrace } : info;
}

function renderTransition({ from, to, at, reason }: StateTransition) {
  return {
    from_state: from === null ? null : STATE_WORDS[from],
    to_state: STATE_WORDS[to],
    timestamp: formatTimestamp(at),
    reason,
  };
}
