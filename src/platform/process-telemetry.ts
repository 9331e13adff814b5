import type { Config } from '../config/load-config.ts';
import { reportAsJson } from '../engine/work/thread-memory.ts';
import { createLog } from '../telemetry/log.ts';
import { logStream } from '../telemetry/log-stream.ts';
import { Metrics } from '../telemetry/metrics.ts';
import type { Tracing } from '../telemetry/otlp.ts';
import { ProcessMetrics } from '../telemetry/process-metrics.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { SinkTracer, type Span } from '../telemetry/trace.ts';
import type { Notices } from './notices.ts';
import { programVersion } from './program-version.ts';

/** What the commands pass on to the parts of a process. */
export type ProcessTelemetry = Telemetry;

/**
 * The telemetry of the process. Log lines go to standard error: JSON for programs, and text on a terminal. There only warnings appear, because
 * a person reads what the command prints.
 */
export function processTelemetry(out: Notices, { logLevel, logFormat, logLimit }: Config['telemetry'], tracing: Tracing | null): Telemetry {
  const isTerminal = process.stderr.isTTY === true;
  const metrics = new Metrics();
  metrics.collectProcess();
  const counters = new ProcessMetrics(metrics);
  const format = logFormat ?? (isTerminal ? 'text' : 'json');
  if (format === 'json') reportAsJson();
  const log = createLog(logStream(format), {
    least: logLevel ?? (out.verbose ? 'debug' : isTerminal ? 'warn' : 'info'),
    limit: logLimit,
    onDropped: (lines) => counters.logLineDropped(lines),
  });
  const sink = (span: Span): void => out.event({ event: 'span', ...span }, '');
  return { metrics, log, tracer: tracing?.tracer ?? new SinkTracer(out.verbose && out.json ? sink : null) };
}

/** Null without a collector. The libraries are loaded only if there is one. */
export async function openTraces({ otlpEndpoint, traceSample }: Config['telemetry']): Promise<Tracing | null> {
  if (otlpEndpoint === null) return null;
  const { openTracing } = await import('../telemetry/otlp.ts');
  return openTracing({ endpoint: otlpEndpoint, sample: traceSample, version: programVersion() });
}
