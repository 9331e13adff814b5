import { randomFillSync } from 'node:crypto';
import { BytePool } from '../core/byte-pool.ts';
import { parseTraceparent } from '../core/traceparent.ts';

/** One operation within a trace (W3C Trace Context). */
export type Span = {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Null for the root span of a trace. */
  readonly parentId: string | null;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
};

export type OpenSpan = {
  readonly traceId: string;
  readonly spanId: string;
  /** The parent for spans in other processes. */
  readonly traceparent: string;
  end(attributes?: Readonly<Record<string, unknown>>): void;
};

const TRACE_BYTES = 16;
const SPAN_BYTES = 8;

// Random bytes for each id alone took 17 us per request.
const random = new BytePool(randomFillSync, 4_096);

type Sink = (span: Span) => void;

/** Creates spans and passes each to the sink when it ends. Without a sink they only have ids, for other parts of the trace. */
export class Tracer {
  readonly #sink: Sink | null;

  constructor(sink: Sink | null) {
    this.#sink = sink;
  }

  /** Starts a new trace when the parent is absent or not valid. */
  start(name: string, parent?: string | OpenSpan, startedAtMs?: number): OpenSpan {
    const above = typeof parent === 'object' ? parent : parseTraceparent(parent);
    const traceId = above?.traceId ?? random.takeHex(TRACE_BYTES);
    const spanId = random.takeHex(SPAN_BYTES);
    if (this.#sink === null) return new SilentSpan(traceId, spanId);
    const parentId = above?.spanId ?? null;
    return new RecordedSpan({ name, traceId, spanId, parentId, startedAtMs: startedAtMs ?? nowMs() }, this.#sink);
  }
}

class SilentSpan implements OpenSpan {
  readonly traceId: string;
  readonly spanId: string;

  constructor(traceId: string, spanId: string) {
    this.traceId = traceId;
    this.spanId = spanId;
  }

  /** `join` returns a flat string. JSON.stringify is twice as slow on a concatenated one. */
  get traceparent(): string {
    return ['00', this.traceId, this.spanId, '01'].join('-');
  }

  end(_attributes?: Span['attributes']): void {}
}

class RecordedSpan extends SilentSpan {
  readonly #beginning: Omit<Span, 'endedAtMs' | 'attributes'>;
  readonly #sink: Sink;
  #isOpen = true;

  constructor(beginning: Omit<Span, 'endedAtMs' | 'attributes'>, sink: Sink) {
    super(beginning.traceId, beginning.spanId);
    this.#beginning = beginning;
    this.#sink = sink;
  }

  override end(attributes: Span['attributes'] = {}): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#sink({ ...this.#beginning, endedAtMs: nowMs(), attributes });
  }
}

/** Wall-clock time that never jumps while the process runs. */
export const nowMs = (): number => performance.timeOrigin + performance.now();
