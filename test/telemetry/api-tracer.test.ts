/** Which traces are recorded, and that one decision holds for a whole trace. */
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { beforeEach, expect, test } from 'vitest';
import { ApiTracer } from '../../src/telemetry/api-tracer.ts';

const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
const tracer = (sample?: number) => new ApiTracer(provider.getTracer('test'), { sample });
const PARENT = `00-${'a'.repeat(32)}-${'b'.repeat(16)}`;

beforeEach(() => exporter.reset());

/** A request, its job in another process, and a webhook of the job. */
function runTrace(sample: number, parent?: string): string[] {
  const request = tracer(sample).start('request POST /queue/v1/jobs', parent);
  const run = tracer(sample).start('run mail.send', request.traceparent);
  const notify = tracer(sample).start('notify', run);
  const spans = [request, run, notify];
  for (const span of spans) span.end({});
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
  expect(new Set(spans.map(({ isRecorded }) => isRecorded)).size).toBe(1);
  return spans.map(({ traceparent }) => traceparent);
}

test('no new trace is recorded with a share of 0, and every one with a share of 1', () => {
  for (const traceparent of runTrace(0)) expect(traceparent).toMatch(/^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-00$/);
  expect(exporter.getFinishedSpans()).toEqual([]);
  for (const traceparent of runTrace(1)) expect(traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  expect(exporter.getFinishedSpans()).toHaveLength(3);
});

test('a part of new traces is recorded, each of them whole', () => {
  const traces = 2_000;
  for (let n = 0; n < traces; n++) runTrace(0.5);
  const recorded = Map.groupBy(exporter.getFinishedSpans(), (span) => span.spanContext().traceId);
  expect(recorded.size).toBeGreaterThan(traces / 4);
  expect(recorded.size).toBeLessThan((traces * 3) / 4);
  expect([...recorded.values()].every((spans) => spans.length === 3)).toBe(true);
});

test.each([
  ['01', 0, 3],
  ['00', 1, 0],
])('the decision of a caller, %s, wins over the share %d', (flags, sample, spans) => {
  const [request] = runTrace(sample, `${PARENT}-${flags}`);
  expect(request).toContain('a'.repeat(32));
  expect(exporter.getFinishedSpans()).toHaveLength(spans);
});

test('a header that is no trace context starts a new trace', () => {
  for (const parent of ['', 'x', `${PARENT}-0g`, `00-${'0'.repeat(32)}-${'b'.repeat(16)}-00`]) {
    expect(runTrace(1, parent)[0]).not.toContain('b'.repeat(16));
  }
  expect(exporter.getFinishedSpans()).toHaveLength(12);
});

test('without a share, the sampler of the given tracer is asked', () => {
  const span = tracer().start('run mail.send', `${PARENT}-00`);
  span.end({});
  expect(span.isRecorded).toBe(false);
  expect(span.traceId).toBe('a'.repeat(32));
  expect(tracer().start('run mail.send').isRecorded).toBe(true);
});
