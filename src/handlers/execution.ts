import { setTimeout as delay } from 'node:timers/promises';
import { type ExecutionPayload, isExecutionPayload } from '../core/execution/definition.ts';
import { EXECUTION_TYPE, KINDS, type KindSpec } from '../core/execution/kinds.ts';
import { JobTimeoutError, PermanentError, TemporaryError } from '../core/handler-errors.ts';
import { collectOutput, type ExecutionOutput, type Produce, produceOutputs } from './execution-output.ts';

/** The part of the handler context that the work needs. */
type ExecutionWork = {
  readonly attempt: number;
  readonly startedAt: Date;
  readonly deadline: Date;
  readonly signal: AbortSignal;
  reportProgress(percent: number, message?: string): Promise<void>;
  log(level: 'info', message: string, fields: Record<string, unknown>): void;
};

export type ExecutionHandlerOptions = {
  /** The factor for durations: 0.1 turns ten seconds into one. */
  timeScale: number;
  /** Concurrent jobs over all workers. */
  activeJobs: number;
  produce?: Produce;
};

type ExecutionResult = ExecutionOutput & { readonly emitted?: true };

/** The longest timer of Node. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;

/** The registration of the simulated work. */
export function executionRegistration({ timeScale, activeJobs, produce = produceOutputs }: ExecutionHandlerOptions) {
  return {
    type: EXECUTION_TYPE,
    concurrency: activeJobs,
    handler: async (work: ExecutionWork, payload: unknown) => attempt(work, definitionOf(payload), { timeScale, produce }),
  };
}

/** A job runs only if its definition is complete and matches its work kind. */
function definitionOf(payload: unknown): ExecutionPayload {
  if (isExecutionPayload(payload) && isOfItsKind(payload)) return payload;
  throw new PermanentError('the definition of the job is missing or not valid: submit the job again', {
    code: 'DEFINITION_MISSING',
  });
}

function isOfItsKind(definition: ExecutionPayload): boolean {
  const { durationMs, shouldFail, payloadKb, expected, types } = KINDS[definition.work_kind];
  return (
    expected !== 'REJECTED' &&
    expected === definition.expected_outcome &&
    types.includes(definition.type) &&
    shouldFail === definition.should_fail &&
    payloadKb * 1_024 === definition.payload_size &&
    // Only the definition knows the maximum runtime at the time of the submission.
    (durationMs === 'over_max_runtime' || durationMs === definition.duration_ms)
  );
}

async function attempt(
  work: ExecutionWork,
  definition: ExecutionPayload,
  { timeScale, produce }: { timeScale: number; produce: Produce },
): Promise<ExecutionResult> {
  const kind = KINDS[definition.work_kind];
  logStart(work, definition);
  await passTime(work, { durationMs: definition.duration_ms * timeScale, parts: kind.steps });
  if (work.attempt <= kind.failsUntilAttempt) failAs(kind.failure, work.attempt);
  const { seed, payload_size: bytes } = definition;
  const output = collectOutput({ seed, bytes, outputs: kind.outputs }, produce);
  return definition.type === 'EMIT_EVENT' ? { ...output, emitted: true } : output;
}

function logStart(work: ExecutionWork, definition: ExecutionPayload): void {
  const { work_kind: scenario, duration_ms, expected_outcome, seed, execution_at, traceparent } = definition;
  const trace = traceparent === undefined ? {} : { traceparent };
  work.log('info', 'execution.started', { scenario, duration_ms, expected_outcome, seed, execution_at, ...trace });
}

/**
 * Reports progress after each part but the last: four parts report 25, 50 and 75 percent. The times count from the start, so that
 * writing a report does not delay the end.
 */
async function passTime(work: ExecutionWork, { durationMs, parts }: { durationMs: number; parts: number }): Promise<void> {
  const startedMs = performance.now() - headStartMs(work, durationMs);
  for (let part = 1; part <= parts; part++) {
    await waitUntil(startedMs + (durationMs * part) / parts, work.signal);
    if (part < parts) await work.reportProgress((100 * part) / parts, `part ${part} of ${parts}`);
  }
}

/**
 * The timeout counts from the claim, a little before the work starts. With a small time scale that gap could exceed the timeout, so
 * the part of it that does not fit into half of the spare time counts as work done.
 */
function headStartMs({ startedAt, deadline }: ExecutionWork, durationMs: number): number {
  const limitMs = deadline.getTime() - startedAt.getTime();
  const lateMs = Date.now() - startedAt.getTime();
  const toleratedMs = Math.max(0, (limitMs - durationMs) / 2);
  return Math.max(0, lateMs - toleratedMs);
}

/** Waits until a time on the monotonic clock. Rejects with the abort reason when the attempt is stopped. */
async function waitUntil(untilMs: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  for (let leftMs = untilMs - performance.now(); leftMs > 0; leftMs = untilMs - performance.now()) {
    await delay(Math.min(leftMs, LONGEST_WAIT_MS), undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

function failAs(failure: KindSpec['failure'], attempt: number): void {
  if (failure === 'temporary') {
    throw new TemporaryError(`attempt ${attempt} failed, as its work kind requires; it can be retried`, {
      code: 'SIMULATED_RETRYABLE',
    });
  }
  if (failure === 'permanent') {
    throw new PermanentError(`attempt ${attempt} failed, as its work kind requires`, { code: 'SIMULATED_FAILURE' });
  }
  // With a small time scale the work may end before the engine next checks deadlines.
  if (failure === 'timeout') throw new JobTimeoutError();
}
