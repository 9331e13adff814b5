import { hostname } from 'node:os';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOnSampler,
  BasicTracerProvider,
  BatchSpanProcessor,
  NodeTracerProvider,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-node';
import { ApiTracer } from './api-tracer.ts';
import type { Tracer } from './trace.ts';

export type TracingOptions = {
  /** The address of a collector that takes OTLP over HTTP, without the path. */
  readonly endpoint: string;
  /** The part of new traces that is recorded, from 0 to 1. A trace that comes from outside keeps its own decision. */
  readonly sample: number;
  readonly version: string;
};

export type Tracing = { readonly tracer: Tracer; close(): Promise<void> };

const EXPORT_TIMEOUT_MS = 5_000;

/**
 * Sends spans to a collector, in batches and in the background: a collector that does not respond costs spans and never a job. It becomes the
 * tracer of the process, so that spans of handlers belong to those of their jobs.
 */
export function openTracing({ endpoint, sample, version }: TracingOptions): Tracing {
  const url = new URL('v1/traces', endpoint.endsWith('/') ? endpoint : `${endpoint}/`).href;
  const exporter = new OTLPTraceExporter({ url, timeoutMillis: EXPORT_TIMEOUT_MS });
  const resource = resourceFromAttributes({
    'service.name': 'millrace',
    'service.version': version,
    'service.instance.id': `${hostname()}:${process.pid}`,
  });
  const spanProcessors = [new BatchSpanProcessor(exporter, { scheduledDelayMillis: 1_000, exportTimeoutMillis: EXPORT_TIMEOUT_MS })];
  // Spans that handlers start with OpenTelemetry outside of every trace are sampled as ours are.
  const root = new TraceIdRatioBasedSampler(sample);
  new NodeTracerProvider({ resource, spanProcessors, sampler: new ParentBasedSampler({ root }) }).register();
  const own = new BasicTracerProvider({ resource, spanProcessors, sampler: new AlwaysOnSampler() });
  return {
    tracer: new ApiTracer(own.getTracer('millrace', version), { sample }),
    close: () => own.shutdown().catch(() => {}),
  };
}
