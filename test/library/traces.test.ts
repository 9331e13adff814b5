/** A program that uses the library and OpenTelemetry. In a process of its own: what it registers is for the whole process. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { folderWith } from '../cli/program.ts';
import { useLedger } from '../ledger/fixture.ts';

const ledger = useLedger();
const root = fileURLToPath(new URL('../../', import.meta.url));

const PROGRAM = `
import { trace } from '${root}node_modules/@opentelemetry/api/build/src/index.js';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '${root}node_modules/@opentelemetry/sdk-trace-node/build/src/index.js';
import { Millrace } from '${root}src/index.ts';

const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
if (process.argv[2] === 'traced') provider.register();
const tracer = trace.getTracer('shop');

const millrace = await Millrace.open({ database: process.env.DATABASE_URL });
millrace.register({
  type: 'pay',
  maxAttempts: 1,
  handler: async (context, { fails }) => {
    await tracer.startActiveSpan('charge the card', async (span) => span.end());
    if (fails) throw new Error('password=hunter2');
    return context.traceparent;
  },
});
await millrace.start();
const jobs = await tracer.startActiveSpan('checkout', async (span) => {
  const submitted = [await millrace.submit({ type: 'pay', payload: { fails: false } }), await millrace.submit({ type: 'pay', payload: { fails: true } })];
  span.end();
  return submitted;
});
const ended = await Promise.all(jobs.map(({ jobId }) => millrace.waitFor(jobId)));
await millrace.close();
const spans = exporter.getFinishedSpans().map((span) => ({
  name: span.name, trace: span.spanContext().traceId, id: span.spanContext().spanId, parent: span.parentSpanContext?.spanId ?? null,
  job: span.attributes.job_id, status: span.status, attributes: span.attributes,
}));
console.log(JSON.stringify({ spans, outputs: ended.map(({ result }) => result?.output ?? null) }));
`;

type Printed = {
  spans: { name: string; trace: string; id: string; parent: string | null; job?: string; status: { code: number } }[];
  outputs: (string | null)[];
};

async function runProgram(how: 'traced' | 'plain'): Promise<{ printed: Printed; text: string }> {
  const folder = folderWith({});
  writeFileSync(join(folder, 'program.ts'), PROGRAM);
  const env = { ...process.env, DATABASE_URL: ledger.db.url };
  const { stdout } = await promisify(execFile)(process.execPath, [join(folder, 'program.ts'), how], { env });
  return { printed: JSON.parse(stdout), text: stdout };
}

test('jobs belong to the span that submits them, and spans of handlers to the job [AB-obs.17] [AB-obs.18]', async () => {
  const { printed, text } = await runProgram('traced');
  const { spans, outputs } = printed;
  const checkout = spans.find(({ name }) => name === 'checkout');
  const runs = spans.filter(({ name }) => name === 'run pay');
  expect(runs.map(({ parent, trace }) => [parent, trace])).toEqual([
    [checkout?.id, checkout?.trace],
    [checkout?.id, checkout?.trace],
  ]);
  const charges = spans.filter(({ name }) => name === 'charge the card');
  expect(charges.map(({ parent }) => parent).sort()).toEqual(runs.map(({ id }) => id).sort());
  expect(runs.map(({ status }) => status.code).sort()).toEqual([0, 2]);
  expect(outputs[0]).toBe(`00-${checkout?.trace}-${checkout?.id}-01`);
  expect(text).not.toContain('hunter2');
});

test('without OpenTelemetry, jobs have no trace', async () => {
  const { printed } = await runProgram('plain');
  expect(printed).toEqual({ spans: [], outputs: [null, null] });
});
