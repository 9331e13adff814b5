import type { Log } from './log.ts';
import type { Metrics } from './metrics.ts';
import type { Tracer } from './trace.ts';

export type Telemetry = { readonly metrics: Metrics; readonly log: Log; readonly tracer: Tracer };
