import type { FastifyRequest } from 'fastify';
import { traceparentOf } from '../../core/traceparent.ts';
import type { OpenSpan, Tracer } from '../../telemetry/trace.ts';
import type { Http } from '../door.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Null while no spans are created, and for probes. */
    span: OpenSpan | null;
  }
}

/** Starts a span for every request except probes. What the request causes belongs to it. */
export function installRequestSpans(http: Http, tracer: Tracer | undefined): void {
  http.decorateRequest('span', null);
  if (tracer?.isOn !== true) return;
  http.addHook('onRequest', (request, _reply, done) => {
    const { method, headers, routeOptions } = request;
    if (routeOptions.config.isProbe !== true) {
      const parent = headers.traceparent;
      request.span = tracer.start(`request ${method} ${routeOptions.url ?? '*'}`, typeof parent === 'string' ? parent : undefined);
    }
    done();
  });
  http.addHook('onResponse', (request, { statusCode }, done) => {
    if (request.span?.isRecorded === true) {
      const { id, method, routeOptions, identity } = request;
      request.span.end({
        request_id: id,
        org_id: identity?.orgId,
        'http.request.method': method,
        'http.route': routeOptions.url,
        'http.response.status_code': statusCode,
        ...(statusCode >= 500 ? { error: String(statusCode) } : {}),
      });
    }
    done();
  });
}

/** The trace context for what the request causes: its span, or the one that the caller names. */
export const traceOf = ({ span, headers }: FastifyRequest): string | null => span?.traceparent ?? traceparentOf(headers.traceparent);
