import {
  type Tracer as ApiTracerOfOpenTelemetry,
  type Attributes,
  type AttributeValue,
  type Context,
  context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import { parseTraceparent } from '../core/traceparent.ts';
import { type OpenSpan, type Tracer, UnrecordedSpan } from './trace.ts';

/** Spans that come from outside, and spans that go there. All others are internal. */
const KINDS: ReadonlyMap<string, SpanKind> = new Map([
  ['request', SpanKind.SERVER],
  ['enqueue', SpanKind.PRODUCER],
  ['run', SpanKind.CONSUMER],
  ['notify', SpanKind.CLIENT],
]);

/** Creates spans of OpenTelemetry. The first word of a name determines the kind of the span. */
export class ApiTracer implements Tracer {
  readonly isOn = true;
  readonly #tracer: ApiTracerOfOpenTelemetry;
  readonly #sample: number | null;

  /**
   * `sample`: the part of new traces that is recorded, chosen here. OpenTelemetry then records all that it is asked for. An unrecorded span of its
   * own costs 3 us, and a job has two (bench/traces.ts). Absent: the sampler of the given tracer chooses.
   */
  constructor(tracer: ApiTracerOfOpenTelemetry, { sample }: { sample?: number } = {}) {
    this.#tracer = tracer;
    this.#sample = sample ?? null;
  }

  start(name: string, parent?: string | OpenSpan, startedAtMs?: number): OpenSpan {
    const above = knownSpan(parent);
    if (this.#sample !== null) {
      if (above === null && Math.random() >= this.#sample) return UnrecordedSpan.root();
      if (above instanceof UnrecordedSpan) return above;
    }
    const kind = KINDS.get(name.split(' ', 1)[0] as string) ?? SpanKind.INTERNAL;
    return new ApiSpan(this.#tracer.startSpan(name, { kind, startTime: startedAtMs }, contextOf(above)));
  }

  within<T>(span: OpenSpan, work: () => T): T {
    return context.with(contextOf(knownSpan(span)), work);
  }
}

/** The trace context that is active where this is called, for a submission that names none. */
export function activeTraceparent(): string | null {
  const active = trace.getActiveSpan()?.spanContext();
  return active === undefined || !trace.isSpanContextValid(active) ? null : traceparentOf(active);
}

/** The tracer of the program that uses the library. It creates nothing while the program has registered none. */
export const programTracer = (): Tracer => new ApiTracer(trace.getTracer('millrace'));

class ApiSpan implements OpenSpan {
  readonly span: Span;

  constructor(span: Span) {
    this.span = span;
  }

  get traceId(): string {
    return this.span.spanContext().traceId;
  }

  get spanId(): string {
    return this.span.spanContext().spanId;
  }

  get traceparent(): string {
    return traceparentOf(this.span.spanContext());
  }

  get isRecorded(): boolean {
    return this.span.isRecording();
  }

  end(attributes: Readonly<Record<string, unknown>> = {}): void {
    if (this.span.isRecording()) {
      this.span.setAttributes(attributesOf(attributes));
      const error = attributes.error ?? attributes.error_code;
      if (error !== undefined) this.span.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
    }
    this.span.end();
  }
}

const traceparentOf = ({ traceId, spanId, traceFlags }: { traceId: string; spanId: string; traceFlags: number }): string =>
  ['00', traceId, spanId, (traceFlags & TraceFlags.SAMPLED) === 0 ? '00' : '01'].join('-');

/** Returns a span of this file as it is, and parses any other parent. Returns null if there is no valid parent. */
function knownSpan(parent: string | OpenSpan | undefined): ApiSpan | UnrecordedSpan | null {
  if (parent instanceof ApiSpan || parent instanceof UnrecordedSpan) return parent;
  const text = typeof parent === 'object' ? parent.traceparent : parent;
  const above = parseTraceparent(text);
  if (above === null) return null;
  const { traceId, spanId, isSampled } = above;
  if (!isSampled) return new UnrecordedSpan(text as string);
  return new ApiSpan(trace.wrapSpanContext({ traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true }));
}

function contextOf(span: ApiSpan | UnrecordedSpan | null): Context {
  if (span === null) return ROOT_CONTEXT;
  if (span instanceof ApiSpan) return trace.setSpan(ROOT_CONTEXT, span.span);
  const { traceId, spanId } = span;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.NONE, isRemote: true });
}

/** OpenTelemetry knows text, numbers and booleans. */
function attributesOf(given: Readonly<Record<string, unknown>>): Attributes {
  const known = Object.entries(given).flatMap(([name, value]): [string, AttributeValue][] => {
    if (value === undefined || value === null) return [];
    return [[name, typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : JSON.stringify(value)]];
  });
  return Object.fromEntries(known);
}
