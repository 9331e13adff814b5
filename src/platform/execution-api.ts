import { PUBLIC_ONLY } from '../core/address-policy.ts';
import type { ExecutionSettings } from '../core/execution/settings.ts';
import { readTargetUrl } from '../core/target-url.ts';
import type { Engine } from '../engine/engine.ts';
import type { Door } from '../http/door.ts';
import { AddressLimiter } from '../http/execution/address-limiter.ts';
import { executionDoor } from '../http/execution/door.ts';
import type { Authenticator } from '../http/shared/identity.ts';
import { createExecutionAdmission } from '../services/admission/queue-admission.ts';
import type { StoredLimit } from '../services/admission/stored-limit.ts';
import type { ExecutionContext, WebhookParts } from '../services/execution/context.ts';
import { createQuota } from '../services/execution/take-quota.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';

export type ExecutionApiParams = {
  engine: Engine;
  settings: ExecutionSettings;
  telemetry: Telemetry;
  authenticator: Authenticator;
  /** Default: only public addresses are allowed, and URLs are checked without a DNS lookup. */
  webhooks?: WebhookParts;
  /** The limit of what jobs take in the database. */
  stored?: StoredLimit;
};

const DAY_MS = 86_400_000;

const BY_TEXT_ALONE: WebhookParts = {
  guard: {
    async check(url) {
      const read = readTargetUrl(url, PUBLIC_ONLY);
      return read.ok ? null : read.refusal;
    },
  },
  addresses: PUBLIC_ONLY,
  secretOverlapMs: DAY_MS,
  onQueued() {},
};

/** Creates the execution API: the parts of its services, and its door. */
export function composeExecution(params: ExecutionApiParams): { context: ExecutionContext; door: Door } {
  const { engine, settings, telemetry, authenticator } = params;
  const context: ExecutionContext = {
    engine,
    settings,
    telemetry,
    admission: createExecutionAdmission(engine, { queueSize: settings.queueSize, orgShare: settings.orgShare, stored: params.stored }),
    webhooks: params.webhooks ?? BY_TEXT_ALONE,
  };
  const addressLimiter = new AddressLimiter({ callsPerMinute: settings.openCallsPerMinute });
  const quota = settings.quota > 0 ? createQuota(engine.database, settings.quota) : null;
  return { context, door: executionDoor(context, { authenticator, addressLimiter, quota }) };
}
