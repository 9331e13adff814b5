import { randomBytes } from 'node:crypto';

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
  /** What to hand to work that belongs below this span, here or elsewhere. */
  readonly traceparent: string;
  end(attributes?: Readonly<Record<string, unknown>>): void;
};

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-|$)/;
const TRACE_BYTES = 16;
const SPAN_BYTES = 8;

/** Makes spans and gives each to the sink when it ends. */
export class Tracer {
  readonly #sink: (span: Span) => void;

  constructor(sink: (span: Span) => void) {
    this.#sink = sink;
  }

  /** A parent that is absent or not valid starts a trace of its own. */
  start(name: string, parent?: string, startedAtMs = nowMs()): OpenSpan {
    const { traceId, spanId: parentId } = parseTraceparent(parent) ?? { traceId: randomHex(TRACE_BYTES), spanId: null };
    const spanId = randomHex(SPAN_BYTES);
    let isOpen = true;
    return {
      traceparent: `00-${traceId}-${spanId}-01`,
      end: (attributes = {}) => {
        if (!isOpen) return;
        isOpen = false;
        this.#sink({ name, traceId, spanId, parentId, startedAtMs, endedAtMs: nowMs(), attributes });
      },
    };
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

const randomHex = (bytes: number): string => randomBytes(bytes).toString('hex');
