import { createLog, type Log } from './log.ts';
import { Metrics } from './metrics.ts';
import { Tracer } from './trace.ts';

/** The three ways in which a process tells what it does. */
export type Telemetry = { readonly metrics: Metrics; readonly log: Log; readonly tracer: Tracer };

/** Counts, and says nothing. */
export function silentTelemetry(): Telemetry {
  return { metrics: new Metrics(), log: createLog(() => {}, 'error'), tracer: new Tracer(null) };
}
