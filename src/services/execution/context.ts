import type { AddressPolicy } from '../../core/address-policy.ts';
import type { ExecutionSettings } from '../../core/execution/settings.ts';
import type { UrlGuard } from '../../core/target-url.ts';
import type { Engine } from '../../engine/engine.ts';
import type { ExecutionMetrics } from '../../telemetry/execution-metrics.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';
import type { Admission } from '../admission/admission.ts';

/** What registering and managing webhooks needs beside the ledger. */
export type WebhookParts = {
  /** Says whether a URL may be called, with a look at the DNS. */
  readonly guard: UrlGuard;
  /** The addresses that may be called beside the global ones. */
  readonly addresses: AddressPolicy;
  /** How long the secret before still counts when a new one is made. */
  readonly secretOverlapMs: number;
  /** Something waits to be delivered. */
  onQueued(): void;
};

/** What every use-case of the execution API works with. */
export type ExecutionContext = {
  readonly engine: Engine;
  readonly settings: ExecutionSettings;
  readonly telemetry: Telemetry;
  readonly metrics: ExecutionMetrics;
  readonly admission: Admission;
  readonly webhooks: WebhookParts;
};

/** Who asks. `clientId` is the org; `actor` is the name its events carry. */
export type Caller = {
  readonly clientId: string;
  readonly keyId: string;
  readonly actor: string;
  readonly requestId: string;
  readonly traceparent?: string;
};
