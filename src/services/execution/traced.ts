import { isAppError } from '../../core/errors.ts';
import type { Job } from '../../core/job.ts';
import { decodePayload } from '../../core/payload.ts';
import type { Caller, ExecutionContext } from './context.ts';

type Attributes = Readonly<Record<string, unknown>>;

export type TracedWork<T = unknown> = {
  readonly name: string;
  /** Absent: a trace of its own. */
  readonly parent: string | undefined;
  readonly attributes: Attributes;
  /** What the result adds to them. */
  readonly found?: (result: T) => Attributes;
};

/** Runs the work within a span, which tells of its failure as well. */
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

/** Something done to a job, as part of the trace that its submission began. */
export function jobWork(name: string, caller: Caller, job: Job): TracedWork {
  const attributes = { job_id: job.id, client_id: caller.clientId, request_id: caller.requestId };
  return { name, parent: traceparentOf(job) ?? caller.traceparent, attributes };
}

/** Something done to a key: one flow from its creation over renewals to its end, found by the key's id. */
export function keyWork(name: string, caller: Caller | null, attributes: Attributes): TracedWork<object> {
  const { traceparent: parent, requestId } = caller ?? {};
  return {
    ...{ name, parent, attributes: { ...attributes, request_id: requestId } },
    found: (result) => ('keyId' in result ? { key_id: result.keyId } : {}),
  };
}

function traceparentOf({ payload }: Job): string | undefined {
  const definition = payload.kind === 'json' ? (decodePayload(payload) as Attributes | null) : null;
  return typeof definition?.traceparent === 'string' ? definition.traceparent : undefined;
}
