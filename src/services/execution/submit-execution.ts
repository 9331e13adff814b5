import type pg from 'pg';
import { fingerprint } from '../../core/canonical-json.ts';
import { AppError } from '../../core/errors.ts';
import {
  type ExecutionDefinition,
  type ExecutionPayload,
  generateDefinition,
} from '../../core/execution/definition.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import type { ExecutionRequest } from '../../core/execution/request.ts';
import { type ExecutionState, executionStateOf } from '../../core/execution/states.ts';
import type { Policy } from '../../core/policy.ts';
import type { Submission } from '../../core/submission.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { findKey } from '../../ledger/find-key.ts';
import type { OpenSpan } from '../../telemetry/trace.ts';
import type { SubmissionResult } from '../submission-result.ts';
import { resultOf, submitJob } from '../submit-job.ts';
import { isQueueFull } from './admission.ts';
import type { Caller, ExecutionContext } from './context.ts';
import { ownedExecution } from './read-execution.ts';
import { sharedClock } from './shared-clock.ts';

export type SubmittedExecution = {
  readonly jobId: string;
  readonly state: ExecutionState;
  readonly createdAt: Date;
  readonly isDuplicate: boolean;
};

/** How far behind the database's clock a time may lie and still mean now. */
const CLOCK_TOLERANCE_MS = 1_000;

/** Generates the definition of a job and accepts it. A repeat of the same request answers with the first one's job. */
export async function submitExecution(
  c: ExecutionContext,
  caller: Caller,
  request: ExecutionRequest,
  receivedAtMs: number,
): Promise<SubmittedExecution> {
  if (request.executionAt !== null) await refusePast(c, request.executionAt);
  const definition = definitionFor(c, request, receivedAtMs);
  const span = c.telemetry.tracer.start('submit', caller.traceparent);
  const attributes = { client_id: caller.clientId, request_id: caller.requestId, scenario: definition.work_kind };
  try {
    const result = await write(c, { caller, request, definition, parent: span });
    const submitted = result.status === 'ACCEPTED' ? bornAs(result) : await repeated(c, caller, result);
    span.end({ ...attributes, job_id: submitted.jobId, duplicate: submitted.isDuplicate });
    record(c, { caller, definition, submitted });
    return submitted;
  } catch (error) {
    span.end({ ...attributes, error: error instanceof AppError ? error.code : 'INTERNAL_ERROR' });
    throw error;
  }
}

async function refusePast({ engine }: ExecutionContext, executionAt: Date): Promise<void> {
  const now = await sharedClock(engine.database);
  if (executionAt.getTime() >= now.getTime() - CLOCK_TOLERANCE_MS) return;
  throw refusal('execution_at', 'IN_THE_PAST', `execution_at lies in the past: it is ${formatTimestamp(now)} now`);
}

function definitionFor({ settings }: ExecutionContext, request: ExecutionRequest, seedMs: number): ExecutionDefinition {
  const { failureProbability, maxRuntimeMs, payloadBytes } = settings;
  const { type, executionAt } = request;
  const workKind = request.workKind ?? undefined;
  const definition = generateDefinition({ type, executionAt, seedMs, failureProbability, maxRuntimeMs, workKind });
  const { work_kind: kind, payload_size: size } = definition;
  if (size <= payloadBytes) return definition;
  const message = `${kind} has a payload of ${size} bytes, more than the ${payloadBytes} allowed here`;
  throw refusal('work_kind', 'PAYLOAD_TOO_LARGE', message);
}

function refusal(field: string, code: string, message: string): AppError {
  const details = [{ field, code, message }];
  return new AppError('INVALID_REQUEST', { message, details, problem: 'RFA_JOB_VALIDATION_FAILED' });
}

type Writing = { caller: Caller; request: ExecutionRequest; definition: ExecutionDefinition; parent: OpenSpan };

/** Only a job that is due enters the queue now; one for later enters it at its time, however full it is. */
async function write(c: ExecutionContext, writing: Writing): Promise<SubmissionResult> {
  const { caller, request } = writing;
  const span = c.telemetry.tracer.start('enqueue', writing.parent);
  const asked = isRepeatable(c, request) ? fingerprintOf(request) : null;
  const key = keyOf(request, asked);
  const submission = submissionFor(writing, { traceparent: span.traceparent, key });
  const options = { profile: profileFor(c, request), fingerprint: asked ?? undefined, ...namedBy(caller) };
  const { clientId: orgId, actor } = caller;
  const submit = (client?: pg.ClientBase) => submitJob(c.engine, { orgId, submission, actor, client, options });
  try {
    const result = await (request.executionAt === null ? c.admission.admit(submit) : c.admission.pass(submit));
    span.end({ client_id: orgId, job_id: result.jobId });
    return result;
  } catch (error) {
    const isFirst = key === null || asked === null || !isQueueFull(error);
    const first = isFirst ? null : await firstOf(c, { orgId, key, asked });
    if (first === null) throw error;
    return first;
  } finally {
    span.end({ client_id: orgId });
  }
}

/** A repeat adds nothing to the queue: full or not, it is answered with the job it repeats. */
async function firstOf(
  { engine }: ExecutionContext,
  { orgId, key, asked }: { orgId: string; key: string; asked: string },
): Promise<SubmissionResult | null> {
  const found = await findKey(engine.database.api, orgId, { scope: EXECUTION_TYPE, key });
  if (found === null) return null;
  const { jobId: existingId, fingerprint } = found;
  return resultOf(engine, { orgId, written: { kind: 'duplicate', existingId, sameRequest: fingerprint === asked } });
}

const namedBy = ({ requestId, lendsId }: Caller) => (lendsId === true ? { id: requestId } : { requestId });

/** Only then is there something to compare: a fingerprint took 5 us of each request. */
const isRepeatable = ({ settings }: ExecutionContext, { idempotencyKey }: ExecutionRequest): boolean =>
  idempotencyKey !== null || settings.duplicateWindowMs > 0;

/** Of what was asked for, never of what was generated: a repeat comes at another time. */
function fingerprintOf({ type, executionAt, callback, workKind }: ExecutionRequest): string {
  const execution_at = executionAt === null ? null : formatTimestamp(executionAt);
  return fingerprint({ type, execution_at, callback, work_kind: workKind });
}

/** With a window for repeats, a request without a key has one made of its content; it is never shown. */
function keyOf({ idempotencyKey }: ExecutionRequest, asked: string | null): string | null {
  if (idempotencyKey !== null || asked === null) return idempotencyKey;
  return `\u0001dup:${asked}`;
}

function profileFor({ settings }: ExecutionContext, { idempotencyKey }: ExecutionRequest): Policy {
  const { profile, duplicateWindowMs } = settings;
  if (idempotencyKey !== null || duplicateWindowMs === 0) return profile;
  return { ...profile, keyWindowMs: duplicateWindowMs };
}

function submissionFor(
  { request, definition }: Writing,
  { traceparent, key }: { traceparent: string; key: string | null },
): Submission<ExecutionPayload> {
  return {
    type: EXECUTION_TYPE,
    payload: { ...definition, traceparent },
    scheduledAt: request.executionAt,
    idempotencyKey: key,
    callbackUrl: request.callback,
    tags: { fr_type: definition.type, work_kind: definition.work_kind },
  };
}

function bornAs({ jobId, createdAt, state }: SubmissionResult): SubmittedExecution {
  const born = executionStateOf({ state, attemptsStarted: 0, isLeased: false });
  return { jobId, createdAt, state: born, isDuplicate: false };
}

async function repeated(
  c: ExecutionContext,
  caller: Caller,
  { jobId, createdAt }: SubmissionResult,
): Promise<SubmittedExecution> {
  const job = await ownedExecution(c, caller, jobId);
  return { jobId, createdAt, state: executionStateOf(job), isDuplicate: true };
}

type Recorded = { caller: Caller; definition: ExecutionDefinition; submitted: SubmittedExecution };

function record({ telemetry, metrics }: ExecutionContext, { caller, definition, submitted }: Recorded): void {
  const { jobId, state, isDuplicate } = submitted;
  metrics.submitted(definition, isDuplicate);
  if (isDuplicate) return;
  const fields = () => ({
    ...{ request_id: caller.requestId, client_id: caller.clientId, job_id: jobId, action: 'submit' },
    ...{ scenario: definition.work_kind, duration_ms: definition.duration_ms },
    expected_outcome: definition.expected_outcome,
  });
  telemetry.log.info('job.created', () => ({ ...fields(), next_state: 'CREATED' }));
  if (state !== 'QUEUED') return;
  metrics.queued();
  telemetry.log.info('job.queued', () => ({ ...fields(), current_state: 'CREATED', next_state: 'QUEUED' }));
}
