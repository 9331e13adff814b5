import { classify, type Failure, PermanentError, PostponeError } from '../../core/failure.ts';
import type { Payload } from '../../core/payload.ts';
import { encodeResult } from './encode-result.ts';
import type { JobContext } from './job-context.ts';
import type { RunningAttempt } from './running-attempt.ts';
import { enterHandler, leaveHandler } from './thread-memory.ts';

/** How the call of a handler ended. */
export type HandlerOutcome =
  | { kind: 'succeeded'; output: Payload; value: unknown }
  /** The handler completed the job in its own transaction. `otherwise` applies if that was rolled back. */
  | { kind: 'completed_by_handler'; otherwise: HandlerOutcome }
  | { kind: 'cancelled' }
  | { kind: 'postponed'; delayMs: number }
  | { kind: 'lost' }
  | { kind: 'failed'; failure: Failure };

const ROLLED_BACK: HandlerOutcome = {
  kind: 'failed',
  failure: {
    category: 'TEMPORARY',
    code: 'COMPLETION_ROLLED_BACK',
    message: 'the transaction in which the handler completed the job was rolled back',
  },
};

/** Runs one attempt: reads the payload, calls the handler, stores its log lines and returns the outcome. Never throws. */
export async function execute(attempt: RunningAttempt, context: JobContext, maxResultBytes: number): Promise<HandlerOutcome> {
  const outcome = await call(attempt, context, maxResultBytes);
  // Readers that see the outcome see every line.
  if (attempt.lines !== null) await attempt.lines.close();
  return outcome;
}

async function call(attempt: RunningAttempt, context: JobContext, maxResultBytes: number): Promise<HandlerOutcome> {
  try {
    const payload = await readPayload(attempt);
    const value = await callHandler(attempt, context, payload);
    if (attempt.isCompletedByHandler) return { kind: 'completed_by_handler', otherwise: ROLLED_BACK };
    return outcomeOf(attempt, value, maxResultBytes);
  } catch (error) {
    const otherwise = failureOf(attempt, error);
    return attempt.isCompletedByHandler ? { kind: 'completed_by_handler', otherwise } : otherwise;
  }
}

function callHandler({ job, timeLimitMs, registered }: RunningAttempt, context: JobContext, payload: unknown): unknown {
  enterHandler(job.leaseSeq, timeLimitMs);
  try {
    return registered.handler(context, payload);
  } finally {
    leaveHandler();
  }
}

function readPayload(attempt: RunningAttempt): unknown {
  const { job, registered } = attempt;
  const raw = job.payloadBytes ?? job.payload;
  return registered.schema === undefined ? raw : validated(registered.schema, raw);
}

async function validated(schema: NonNullable<RunningAttempt['registered']['schema']>, raw: unknown): Promise<unknown> {
  const result = await schema['~standard'].validate(raw);
  if (result.issues === undefined) return result.value;
  const first = result.issues[0];
  const path = first?.path?.map((part) => (typeof part === 'object' ? part.key : part)).join('.') ?? '';
  throw new PermanentError(`The payload is not valid: ${path === '' ? '' : `${path}: `}${first?.message ?? 'unknown issue'}`, {
    code: 'INVALID_PAYLOAD',
  });
}

function outcomeOf(attempt: RunningAttempt, value: unknown, maxBytes: number): HandlerOutcome {
  // After the deadline, the cancellation grace or the lease, the result of the handler no longer counts.
  if (attempt.abortCause === 'lost_lease') return { kind: 'lost' };
  if (attempt.abortCause === 'cancel') return { kind: 'cancelled' };
  if (attempt.abortCause === 'timeout' || attempt.abortCause === 'lifetime') {
    return { kind: 'failed', failure: classify(attempt.abortError(), attempt.abortCause) };
  }
  return { kind: 'succeeded', output: encodeResult(value, { maxBytes, prefix: 'The result of the handler cannot be stored: ' }), value };
}

function failureOf(attempt: RunningAttempt, error: unknown): HandlerOutcome {
  const failure = classify(error, attempt.abortCause);
  if (attempt.abortCause === 'lost_lease') return { kind: 'lost' };
  if (attempt.isStoppedByCancel || (attempt.isCancelRequested && failure.category === 'CANCELLED')) return { kind: 'cancelled' };
  if (error instanceof PostponeError && attempt.abortCause === undefined) return { kind: 'postponed', delayMs: waitOf(error) };
  return { kind: 'failed', failure };
}

const waitOf = ({ retryAfter }: PostponeError): number =>
  typeof retryAfter === 'number' ? retryAfter : Math.max(0, retryAfter.getTime() - Date.now());

/** If the handler completed the job in its own transaction, that completion decides, whatever happened to the attempt since. */
export function preferOwnCompletion(attempt: RunningAttempt, outcome: HandlerOutcome): HandlerOutcome {
  if (!attempt.isCompletedByHandler || outcome.kind === 'completed_by_handler') return outcome;
  return { kind: 'completed_by_handler', otherwise: outcome };
}
