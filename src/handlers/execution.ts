import { setTimeout as delay } from 'node:timers/promises';
import { type ExecutionPayload, isExecutionPayload } from '../core/execution/definition.ts';
import { EXECUTION_TYPE, KINDS, type KindSpec } from '../core/execution/kinds.ts';
import { JobTimeoutError, PermanentError, TemporaryError } from '../core/handler-errors.ts';
import { collectOutput, type ExecutionOutput, type Produce, produceOutputs } from './execution-output.ts';

/** What the work needs of the context that handlers are given. */
type ExecutionWork = {
  readonly attempt: number;
  readonly startedAt: Date;
  readonly deadline: Date;
  readonly signal: AbortSignal;
  reportProgress(percent: number, message?: string): Promise<void>;
  log(level: 'info', message: string, fields: Record<string, unknown>): void;
};

export type ExecutionHandlerOptions = {
  /** Durations are multiplied by this: 0.1 makes ten seconds one. */
  timeScale: number;
  /** How many may run at once, over all workers. */
  activeJobs: number;
  produce?: Produce;
};

type ExecutionResult = ExecutionOutput & { readonly emitted?: true };

/** A registration of the simulated work, in the shape that the engine's registry takes. */
export type ExecutionRegistration = {
  type: typeof EXECUTION_TYPE;
  concurrency: number;
  handler: (work: ExecutionWork, payload: unknown) => Promise<ExecutionResult>;
};

/** The longest that a timer of Node can wait. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;

export function executionRegistration(options: ExecutionHandlerOptions): ExecutionRegistration {
  const { timeScale, activeJobs, produce = produceOutputs } = options;
  return {
    type: EXECUTION_TYPE,
    concurrency: activeJobs,
    handler: async (work, payload) => attempt(work, definitionOf(payload), { timeScale, produce }),
  };
}

/** A job runs with a whole definition, one that says what its kind says, or not at all. */
function definitionOf(payload: unknown): ExecutionPayload {
  if (isExecutionPayload(payload) && isOfItsKind(payload)) return payload;
  throw new PermanentError('the job has no usable definition, so it was not run', { code: 'DEFINITION_MISSING' });
}

function isOfItsKind(definition: ExecutionPayload): boolean {
  const { durationMs, shouldFail, payloadKb, expected, types } = KINDS[definition.work_kind];
  return (
    expected !== 'REJECTED' &&
    expected === definition.expected_outcome &&
    types.includes(definition.type) &&
    shouldFail === definition.should_fail &&
    payloadKb * 1_024 === definition.payload_size &&
    // How long the longest runtime was when the job came is written nowhere else.
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
 * Reports progress between the parts and not after the last, which the outcome follows: four parts are 25, 50 and 75
 * percent. The moments are counted from the start, so that writing a report takes nothing from the time that is left.
 */
async function passTime(
  work: ExecutionWork,
  { durationMs, parts }: { durationMs: number; parts: number },
): Promise<void> {
  const startedMs = performance.now() - headStartMs(work, durationMs);
  for (let part = 1; part <= parts; part++) {
    await rest(startedMs + (durationMs * part) / parts, work.signal);
    if (part < parts) await work.reportProgress((100 * part) / parts, `part ${part} of ${parts}`);
  }
}

/**
 * An attempt begins when it is claimed, a little before its work does. What went by since then counts as work done where the
 * whole duration would use up more than half of what is left until the deadline. A small time scale leaves that little.
 */
function headStartMs({ startedAt, deadline }: ExecutionWork, durationMs: number): number {
  const limitMs = deadline.getTime() - startedAt.getTime();
  const lateMs = Date.now() - startedAt.getTime();
  const toleratedMs = Math.max(0, (limitMs - durationMs) / 2);
  return Math.max(0, lateMs - toleratedMs);
}

/** Until the moment on the monotonic clock. Rejects with the reason as soon as the attempt is to stop. */
async function rest(untilMs: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  for (let leftMs = untilMs - performance.now(); leftMs > 0; leftMs = untilMs - performance.now()) {
    await delay(Math.min(leftMs, LONGEST_WAIT_MS), undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

function failAs(failure: KindSpec['failure'], attempt: number): void {
  if (failure === 'temporary') {
    throw new TemporaryError(`attempt ${attempt} failed, as its kind says; it can be retried`, {
      code: 'SIMULATED_RETRYABLE',
    });
  }
  if (failure === 'permanent') {
    throw new PermanentError(`attempt ${attempt} failed, as its kind says`, { code: 'SIMULATED_FAILURE' });
  }
  // At a small time scale the work may end before the engine next looks at deadlines.
  if (failure === 'timeout') throw new JobTimeoutError();
}
