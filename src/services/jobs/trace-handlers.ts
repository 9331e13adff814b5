import type { Handler, WrapHandler } from '../../engine/work/registry.ts';
import type { Tracer } from '../../telemetry/trace.ts';

/** Calls handlers inside a span that belongs to the trace of their job. Spans that a handler starts belong to that span. */
export const traceHandlers =
  (tracer: Tracer): WrapHandler =>
  (handler) =>
  (...[context, payload]: Parameters<Handler>) => {
    const { type, jobId, orgId, projectId, attempt, correlationId } = context;
    const span = tracer.start(`run ${type}`, context.traceparent ?? undefined);
    if (!span.isRecorded) return tracer.within(span, () => handler(context, payload));
    const attributes = { job_id: jobId, job_type: type, org_id: orgId, project_id: projectId, attempt, correlation_id: correlationId };
    const fail = (error: unknown): never => {
      span.end({ ...attributes, error: codeOf(error) });
      throw error;
    };
    try {
      const result = tracer.within(span, () => handler(context, payload));
      if (!(result instanceof Promise)) {
        span.end(attributes);
        return result;
      }
      return result.then((value) => {
        span.end(attributes);
        return value;
      }, fail);
    } catch (error) {
      return fail(error);
    }
  };

/** No message: it may contain what the payload contained. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'ERROR';
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && code !== '' ? code.slice(0, 100) : error.name;
}
