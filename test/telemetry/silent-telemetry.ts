import { createLog } from '../../src/telemetry/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import type { Telemetry } from '../../src/telemetry/telemetry.ts';
import { SinkTracer } from '../../src/telemetry/trace.ts';

/** Counts, and writes no logs and no spans. */
export function silentTelemetry(): Telemetry {
  return { metrics: new Metrics(), log: createLog(() => {}, { least: 'off' }), tracer: new SinkTracer(null) };
}
