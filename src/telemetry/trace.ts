import { randomFillSync } from 'node:crypto';
import { BytePool } from '../core/byte-pool.ts';

/** A piece of work with a beginning and an end, as part of a trace (W3C Trace Context). */
export type Span = {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Null for the first of a trace. */
  readonly parentId: string | null;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
};

export type OpenSpan = {
  readonly traceId: string;
  readonly spanId: string;
  /** What to hand to work that belongs below this span elsewhere. */
  readonly traceparent: string;
  end(attributes?: Readonly<Record<string, unknown>>): void;
};

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-|$)/;
const TRACE_BYTES = 16;
const SPAN_BYTES = 8;

// A draw for each id took 17 us a request.
const random = new BytePool(randomFillSync, 4_096);

type Sink = (span: Span) => void;

/** Makes spans and gives each to the sink when it ends. Without a sink they only have their ids, for whoever else is in the trace. */
export class Tracer {
  readonly #sink: Sink | null;

  constructor(sink: Sink | null) {
    this.#sink = sink;
  }

  /** A parent that is absent or not valid starts a trace of its own. It began now unless told otherwise. */
  start(name: string, parent?: string | OpenSpan, startedAtMs?: number): OpenSpan {
    const above = typeof parent === 'object' ? parent : parseTraceparent(parent);
    const traceId = above?.traceId ?? random.takeHex(TRACE_BYTES);
    const spanId = random.takeHex(SPAN_BYTES);
    if (this.#sink === null) return new SpanUnheard(traceId, spanId);
    const parentId = above?.spanId ?? null;
    return new SpanHeard({ name, traceId, spanId, parentId, startedAtMs: startedAtMs ?? nowMs() }, this.#sink);
  }
}

class SpanUnheard implements OpenSpan {
  readonly traceId: string;
  readonly spanId: string;

  constructor(traceId: string, spanId: string) {
    this.traceId = traceId;
    this.spanId = spanId;
  }

  /** Joined it is one piece; a string of pieces would make JSON.stringify, which writes it next, twice as slow. */
  get traceparent(): string {
    return ['00', this.traceId, this.spanId, '01'].join('-');
  }

  end(_attributes?: Span['attributes']): void {}
}

class SpanHeard extends SpanUnheard {
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

/** Null when it names no trace; ids of zeros only are not valid. */
function parseTraceparent(text: string | undefined): { traceId: string; spanId: string } | null {
  const match = text === undefined ? null : TRACEPARENT.exec(text.trim().toLowerCase());
  if (match === null || text?.startsWith('ff')) return null;
  const [, traceId, spanId] = match as unknown as [string, string, string];
  return /[^0]/.test(traceId) && /[^0]/.test(spanId) ? { traceId, spanId } : null;
}

/** Wall time that does not jump while the process lives. */
export const nowMs = (): number => performance.timeOrigin + performance.now();
