import { AppError } from '../../core/errors.ts';
import { classify, type Failure, PermanentError } from '../../core/failure.ts';
import { encodeOutput, type Payload } from '../../core/payload.ts';
import type { Execution } from './execution.ts';
import type { JobContext } from './job-context.ts';

/** How an attempt ended, as the completer gets it. */
export type AttemptOutcome =
  | { kind: 'succeeded'; output: Payload; value: unknown }
  /** The handler completed the job in a transaction of its own; `otherwise` holds if that was rolled back. */
  | { kind: 'completed_by_handler'; otherwise: AttemptOutcome }
  | { kind: 'cancelled' }
  | { kind: 'lost' }
  | { kind: 'failed'; failure: Failure };

const ROLLED_BACK: AttemptOutcome = {
  kind: 'failed',
  failure: {
    category: 'TEMPORARY',
    code: 'COMPLETION_ROLLED_BACK',
    message: 'the transaction in which the handler completed the job was rolled back',
  },
};

/** Runs one attempt: read the payload, call the handler, name the outcome. Never throws. */
export async function execute(execution: Execution, context: JobContext): Promise<AttemptOutcome> {
  try {
    const payload = await readPayload(execution);
    const value = await execution.registered.handler(context, payload);
    if (execution.isCompletedByHandler) return { kind: 'completed_by_handler', otherwise: ROLLED_BACK };
    return outcomeOf(execution, value);
  } catch (error) {
    const otherwise = failureOf(execution, error);
    return execution.isCompletedByHandler ? { kind: 'completed_by_handler', otherwise } : otherwise;
  }
}

function readPayload(execution: Execution): unknown {
  const { job, registered } = execution;
  const raw = job.payloadBytes ?? job.payload;
  return registered.schema === undefined ? raw : validated(registered.schema, raw);
}

async function validated(schema: NonNullable<Execution['registered']['schema']>, raw: unknown): Promise<unknown> {
  const result = await schema['~standard'].validate(raw);
  if (result.issues === undefined) return result.value;
  const first = result.issues[0];
  const path = first?.path?.map((part) => (typeof part === 'object' ? part.key : part)).join('.') ?? '';
  throw new PermanentError(
    `The payload is not valid: ${path === '' ? '' : `${path}: `}${first?.message ?? 'unknown issue'}`,
    {
      code: 'INVALID_PAYLOAD',
    },
  );
}

function outcomeOf(execution: Execution, value: unknown): AttemptOutcome {
  // A handler that returns after its time, its cancellation grace or its lease has nothing more to say.
  if (execution.abortCause === 'lost_lease') return { kind: 'lost' };
  if (execution.abortCause === 'cancel') return { kind: 'cancelled' };
  if (execution.abortCause === 'timeout' || execution.abortCause === 'lifetime') {
    return { kind: 'failed', failure: classify(execution.abortError(), execution.abortCause) };
  }
  const encoded = encodeOutput(value);
  if (encoded.ok) return { kind: 'succeeded', output: encoded.payload, value };
  return {
    kind: 'failed',
    failure: classify(new AppError('NOT_SERIALIZABLE', { message: `The handler's result: ${encoded.issue.message}` })),
  };
}

function failureOf(execution: Execution, error: unknown): AttemptOutcome {
  const failure = classify(error, execution.abortCause);
  if (execution.abortCause === 'lost_lease') return { kind: 'lost' };
  if (execution.isCancelRequested && (execution.abortCause === 'cancel' || failure.category === 'CANCELLED')) {
    return { kind: 'cancelled' };
  }
  return { kind: 'failed', failure };
}

/** A job that its handler completed in a transaction of its own has ended that way, whatever happened to the attempt since. */
export function ownEndFirst(execution: Execution, outcome: AttemptOutcome): AttemptOutcome {
  if (!execution.isCompletedByHandler || outcome.kind === 'completed_by_handler') return outcome;
  return { kind: 'completed_by_handler', otherwise: outcome };
}
