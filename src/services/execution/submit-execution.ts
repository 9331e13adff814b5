import { fingerprint } from '../../core/canonical-json.ts';
import { AppError } from '../../core/errors.ts';
import { type ExecutionDefinition, type ExecutionPayload, generateDefinition } from '../../core/execution/definition.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import { type ExecutionState, executionStateOf } from '../../core/execution/states.ts';
import type { Owner } from '../../core/owner.ts';
import type { Policy } from '../../core/policy.ts';
import type { Submission } from '../../core/submission.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { findKey, keyScope } from '../../ledger/jobs/idempotency-keys.ts';
import type { LogFields } from '../../telemetry/log.ts';
import type { SubmissionResult } from '../jobs/submission-result.ts';
import { resultOf, submitJob } from '../jobs/submit-job.ts';
import type { Caller, ExecutionContext } from './context.ts';
import type { ExecutionRequest } from './execution-request.ts';
import { ownedExecution } from './read-execution.ts';
import { sharedClock } from './shared-clock.ts';

export type SubmittedExecution = {
  readonly jobId: string;
  readonly state: ExecutionState;
  readonly createdAt: Date;
  readonly isDuplicate: boolean;
};

/** A time that is at most this far in the past, by the database's clock, means now. */
const CLOCK_TOLERANCE_MS = 1_000;
/** A job that is due this soon may be due before it is written, so it counts as due now. */
const WRITING_MS = 500;

/** Generates the definition of a job and accepts the job. A repeated request returns the job of the first one. */
export async function submitExecution(
  c: ExecutionContext,
  caller: Caller,
  request: ExecutionRequest,
  receivedAtMs: number,
): Promise<SubmittedExecution> {
  const timing = request.executionAt === null ? NOW : await timingOf(c, request.executionAt);
  const definition = definitionFor(c, request, receivedAtMs);
  const { clientId: client_id, requestId: request_id } = caller;
  const { tracer } = c.telemetry;
  const submitting = tracer.start('submit', caller.traceparent);
  const enqueuing = tracer.start('enqueue', submitting);
  try {
    const result = await enqueue(c, { caller, request, definition, timing, traceparent: enqueuing.traceparent });
    enqueuing.end({ client_id, job_id: result.jobId });
    const submitted = result.status === 'ACCEPTED' ? bornAs(result) : await repeated(c, caller, result);
    const { jobId: job_id, isDuplicate: duplicate } = submitted;
    submitting.end({ client_id, request_id, scenario: definition.work_kind, job_id, duplicate });
    record(c, { caller, definition, submitted });
    return submitted;
  } catch (error) {
    enqueuing.end({ client_id });
    const code = error instanceof AppError ? error.code : 'INTERNAL_ERROR';
    submitting.end({ client_id, request_id, scenario: definition.work_kind, error: code });
    throw error;
  }
}

/** Whether a job is due, by the ledger's clock. */
type Timing = { readonly is: 'now' | 'later' } | { readonly is: 'past'; readonly now: Date };

const NOW: Timing = { is: 'now' };

async function timingOf({ engine }: ExecutionContext, executionAt: Date): Promise<Timing> {
  const now = await sharedClock(engine.database);
  const inMs = executionAt.getTime() - now.getTime();
  if (inMs < -CLOCK_TOLERANCE_MS) return { is: 'past', now };
  return inMs <= WRITING_MS ? NOW : { is: 'later' };
}

const tooLate = (now: Date): AppError =>
  refusal('execution_at', 'IN_THE_PAST', `execution_at is in the past: the time is ${formatTimestamp(now)}`);

function definitionFor({ settings }: ExecutionContext, request: ExecutionRequest, seedMs: number): ExecutionDefinition {
  const { failureProbability, maxRuntimeMs, payloadBytes } = settings;
  const { type, executionAt } = request;
  const workKind = request.workKind ?? undefined;
  const definition = generateDefinition({ type, executionAt, seedMs, failureProbability, maxRuntimeMs, workKind });
  const { work_kind: kind, payload_size: size } = definition;
  if (size <= payloadBytes) return definition;
  const message = `${kind} has a payload of ${size} bytes, but this server allows at most ${payloadBytes}`;
  throw refusal('work_kind', 'PAYLOAD_TOO_LARGE', message);
}

function refusal(field: string, code: string, message: string): AppError {
  const details = [{ field, code, message }];
  return new AppError('INVALID_REQUEST', { message, details, problem: 'RFA_JOB_VALIDATION_FAILED' });
}

type Writing = {
  caller: Caller;
  request: ExecutionRequest;
  definition: ExecutionDefinition;
  timing: Timing;
  traceparent: string;
};

/** A job for later enters the queue when it is due, so it needs no room now. */
async function enqueue(c: ExecutionContext, writing: Writing): Promise<SubmissionResult> {
  const { caller, request, timing } = writing;
  const { clientId: orgId, projectId, actor, requestId } = caller;
  const asked = isRepeatable(c, request) ? fingerprintOf(request) : null;
  const key = keyOf(request, asked);
  if (timing.is === 'past') {
    const first = key === null ? null : await firstOf(c, { orgId, projectId, key, asked });
    if (first === null) throw tooLate(timing.now);
    return first;
  }
  const terms = { profile: profileFor(c, request), fingerprint: asked ?? undefined, requestId };
  return submitJob(c.engine, {
    orgId,
    actor,
    submission: submissionFor(writing, key),
    terms,
    admission: c.admission,
    needsRoom: timing.is === 'now',
  });
}

/** A repeated request returns its job even after the time in the request has passed. */
async function firstOf(
  { engine }: ExecutionContext,
  { orgId, projectId, key, asked }: Owner & { key: string; asked: string | null },
): Promise<SubmissionResult | null> {
  const found = await findKey(engine.database.api, orgId, { scope: keyScope(EXECUTION_TYPE, projectId), key });
  if (found === null) return null;
  const { jobId: existingId, fingerprint } = found;
  return resultOf(engine, { orgId, written: { kind: 'duplicate', existingId, sameRequest: fingerprint === asked } });
}

/** Only such requests get a fingerprint, which takes 5 us. */
const isRepeatable = ({ settings }: ExecutionContext, { idempotencyKey }: ExecutionRequest): boolean =>
  idempotencyKey !== null || settings.duplicateWindowMs > 0;

/** The fingerprint covers the request only. The generated definition depends on the time of the request. */
function fingerprintOf({ type, executionAt, callback, workKind }: ExecutionRequest): string {
  const execution_at = executionAt === null ? null : formatTimestamp(executionAt);
  return fingerprint({ type, execution_at, callback, work_kind: workKind });
}

/** If the server detects duplicates, a request without a key gets one from its content. No response shows it. */
function keyOf({ idempotencyKey }: ExecutionRequest, asked: string | null): string | null {
  if (idempotencyKey !== null || asked === null) return idempotencyKey;
  return `\u0001dup:${asked}`;
}

function profileFor({ settings }: ExecutionContext, { idempotencyKey }: ExecutionRequest): Policy {
  const { profile, duplicateWindowMs } = settings;
  if (idempotencyKey !== null || duplicateWindowMs === 0) return profile;
  return { ...profile, keyWindowMs: duplicateWindowMs };
}

function submissionFor({ caller, request, definition, traceparent }: Writing, key: string | null): Submission<ExecutionPayload> {
  return {
    type: EXECUTION_TYPE,
    payload: { ...definition, traceparent },
    scheduledAt: request.executionAt,
    idempotencyKey: key,
    callbackUrl: request.callback,
    ...(caller.projectId === null ? {} : { projectId: caller.projectId }),
    tags: { fr_type: definition.type, work_kind: definition.work_kind },
  };
}

function bornAs({ jobId, createdAt, state }: SubmissionResult): SubmittedExecution {
  const born = executionStateOf({ state, attemptsStarted: 0, isLeased: false });
  return { jobId, createdAt, state: born, isDuplicate: false };
}

async function repeated(c: ExecutionContext, caller: Caller, { jobId, createdAt }: SubmissionResult): Promise<SubmittedExecution> {
  const job = await ownedExecution(c, { caller, jobId });
  return { jobId, createdAt, state: executionStateOf(job), isDuplicate: true };
}

type Recorded = { caller: Caller; definition: ExecutionDefinition; submitted: SubmittedExecution };

function record({ telemetry }: ExecutionContext, recorded: Recorded): void {
  const { state, isDuplicate } = recorded.submitted;
  if (isDuplicate) return;
  telemetry.log.info('job.created', () => ({ ...fieldsOf(recorded), next_state: 'CREATED' }));
  if (state !== 'QUEUED') return;
  telemetry.log.info('job.queued', () => ({
    ...fieldsOf(recorded),
    current_state: 'CREATED',
    next_state: 'QUEUED',
  }));
}

function fieldsOf({ caller, definition, submitted }: Recorded): LogFields {
  return {
    request_id: caller.requestId,
    correlation_id: caller.requestId,
    client_id: caller.clientId,
    org_id: caller.clientId,
    project_id: caller.projectId ?? undefined,
    job_id: submitted.jobId,
    job_type: EXECUTION_TYPE,
    action: 'submit',
    scenario: definition.work_kind,
    duration_ms: definition.duration_ms,
    expected_outcome: definition.expected_outcome,
  };
}
