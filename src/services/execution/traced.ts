import { isAppError } from '../../core/errors.ts';
import type { Job } from '../../core/job.ts';
import { decodePayload } from '../../core/payload.ts';
import type { Caller, ExecutionContext } from './context.ts';

type Attributes = Readonly<Record<string, unknown>>;

export type TracedWork<T = unknown> = {
  readonly name: string;
  /** Absent: the span starts a new trace. */
  readonly parent: string | undefined;
  readonly attributes: Attributes;
  /** More attributes, taken from the result. */
  readonly found?: (result: T) => Attributes;
};

/** Runs the work within a span, and records its error if it fails. */
export async function traced<T>(c: ExecutionContext, span: TracedWork<T>, work: () => Promise<T>): Promise<T> {
  const open = c.telemetry.tracer.start(span.name, span.parent);
  try {
    const result = await work();
    open.end({ ...span.attributes, ...span.found?.(result) });
    return result;
  } catch (error) {
    open.end({ ...span.attributes, error: isAppError(error) ? error.code : 'INTERNAL_ERROR' });
    throw error;
  }
}

/** An action on a job. Its span belongs to the trace that the submission of the job started. */
export function jobWork(name: string, caller: Caller, job: Job): TracedWork {
  const attributes = { job_id: job.id, client_id: caller.clientId, request_id: caller.requestId };
  return { name, parent: traceparentOf(job) ?? caller.traceparent, attributes };
}

/** An action on a key. The attribute `key_id` connects all actions on the same key. */
export function keyWork(name: string, caller: Caller | null, attributes: Attributes): TracedWork<object> {
  const { traceparent: parent, requestId } = caller ?? {};
  return {
    name,
    parent,
    attributes: { ...attributes, request_id: requestId },
    found: (result) => ('keyId' in result ? { key_id: result.keyId } : {}),
  };
}

/** The trace that the submission of the job started. */
export function traceparentOf({ payload }: Job): string | undefined {
  const definition = payload.kind === 'json' ? (decodePayload(payload) as Attributes | null) : null;
  return typeof definition?.traceparent === 'string' ? definition.traceparent : undefined;
}
