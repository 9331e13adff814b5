import { createLog, type LogLine } from '../telemetry/log.ts';
import { Metrics } from '../telemetry/metrics.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { type Span, Tracer } from '../telemetry/trace.ts';
import type { Notices } from './notices.ts';

/** The telemetry of the process. It prints errors always, and lines about requests and jobs only with --verbose. */
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
