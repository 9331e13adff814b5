import { describe, expect, it } from 'vitest';
import { SinkTracer, type Span } from '../../src/telemetry/trace.ts';

function tracing(): { tracer: SinkTracer; spans: Span[] } {
  const spans: Span[] = [];
  return { tracer: new SinkTracer((span) => spans.push(span)), spans };
}

describe('a trace', () => {
  it('links the spans that were started inside each other', () => {
    const { tracer, spans } = tracing();
    const outer = tracer.start('outer');
    const inner = tracer.start('inner', outer.traceparent);
    inner.end({ job_id: 'j' });
    outer.end();
    const [first, second] = spans as [Span, Span];
    expect(first).toMatchObject({ name: 'inner', parentId: second.spanId, attributes: { job_id: 'j' } });
    expect(second).toMatchObject({ name: 'outer', parentId: null, attributes: {} });
    expect(first.traceId).toBe(second.traceId);
    expect(first.startedAtMs).toBeGreaterThanOrEqual(second.startedAtMs);
    expect(first.endedAtMs).toBeGreaterThanOrEqual(first.startedAtMs);
    expect(outer.traceparent).toBe(`00-${second.traceId}-${second.spanId}-01`);
  });

  it('goes on from a parent that came from elsewhere', () => {
    const { tracer, spans } = tracing();
    tracer.start('x', `00-${'a'.repeat(32)}-${'b'.repeat(16)}-00`).end();
    expect(spans[0]).toMatchObject({ traceId: 'a'.repeat(32), parentId: 'b'.repeat(16) });
  });

  it.each([
    undefined,
    '',
    'nonsense',
    `00-${'0'.repeat(32)}-${'b'.repeat(16)}-01`,
    `00-${'a'.repeat(32)}-${'0'.repeat(16)}-01`,
    `ff-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
    `00-${'a'.repeat(31)}-${'b'.repeat(16)}-01`,
  ])('starts anew where the parent is %j', (parent) => {
    const { tracer, spans } = tracing();
    tracer.start('x', parent).end();
    expect(spans[0]).toMatchObject({ parentId: null, traceId: expect.stringMatching(/^[0-9a-f]{32}$/) });
    expect(spans[0]?.traceId).not.toBe('a'.repeat(32));
  });

  it('ends a span once, and may begin it earlier', () => {
    const { tracer, spans } = tracing();
    const span = tracer.start('x', undefined, 1_000);
    span.end({ first: true });
    span.end({ second: true });
    expect(spans).toMatchObject([{ startedAtMs: 1_000, attributes: { first: true } }]);
  });

  it('has ids even when no exporter receives its spans', () => {
    const tracer = new SinkTracer(null);
    const outer = tracer.start('outer');
    const inner = tracer.start('inner', outer);
    inner.end();
    expect(inner.traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    expect(inner.traceId).toBe(outer.traceId);
    expect(inner.spanId).not.toBe(outer.spanId);
  });
});
