import { createLog, type LogLine } from '../telemetry/log.ts';
import { Metrics } from '../telemetry/metrics.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { type Span, Tracer } from '../telemetry/trace.ts';
import type { Notices } from './notices.ts';

/**
 * What a process tells of itself. Lines about requests and jobs are many, so they are shown where somebody asked for them;
 * errors always.
 */
export function processTelemetry(out: Notices): Telemetry {
  const write = (line: LogLine): void => out.event({ event: 'log', ...line }, textOf(line));
  const sink = (span: Span): void => out.event({ event: 'span', ...span }, '');
  return {
    metrics: new Metrics(),
    log: createLog(write, out.verbose ? 'info' : 'error'),
    tracer: new Tracer(out.verbose && out.json ? sink : null),
  };
}

/** `12:00:00.000 error request request_id=… status=503` */
function textOf({ time, level, message, ...fields }: LogLine): string {
  const shown = Object.entries(fields).map(([name, value]) => `${name}=${showValue(value)}`);
  return [time.slice(11, -1), level, message, ...shown].join(' ');
}

function showValue(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return /^[\w.:/-]*$/.test(text) ? text : JSON.stringify(text);
}
