import type { ExecutionSettings } from '../../core/execution/settings.ts';
import type { Engine } from '../../engine/engine.ts';
import type { ExecutionMetrics } from '../../telemetry/execution-metrics.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';
import type { Admission } from './admission.ts';

/** What every use-case of the execution API works with. */
export type ExecutionContext = {
  readonly engine: Engine;
  readonly settings: ExecutionSettings;
  readonly telemetry: Telemetry;
  readonly metrics: ExecutionMetrics;
  readonly admission: Admission;
};

/** Who asks. `clientId` is the org; `actor` is the name its events carry. */
export type Caller = {
  readonly clientId: string;
  readonly keyId: string;
  readonly actor: string;
  readonly requestId: string;
  readonly traceparent?: string;
};
