import type { AddressPolicy } from '../../core/address-policy.ts';
import type { ExecutionSettings } from '../../core/execution/settings.ts';
import type { AuditAction } from '../../core/governance/audit-action.ts';
import type { Owner } from '../../core/owner.ts';
import type { UrlGuard } from '../../core/target-url.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';
import type { Admission } from '../admission/admission.ts';

/** The parts that webhook services need in addition to the engine. */
export type WebhookParts = {
  /** Checks whether a URL may be called. It resolves the name of the host. */
  readonly guard: UrlGuard;
  /** The addresses that may be called in addition to public ones. */
  readonly addresses: AddressPolicy;
  /** How long the old secret stays valid after a rotation. */
  readonly secretOverlapMs: number;
  onQueued(): void;
};

/** The parts that the services of the execution API need. */
export type ExecutionContext = {
  readonly engine: Engine;
  readonly settings: ExecutionSettings;
  readonly telemetry: Telemetry;
  readonly admission: Admission;
  readonly webhooks: WebhookParts;
};

/** Whose jobs the caller reaches. */
export const ownerOf = ({ clientId: orgId, projectId }: Caller): Owner => ({ orgId, projectId });

/** The sender of a request. `clientId` is its org; `actor` is its name in the history of jobs. */
export type Caller = {
  readonly clientId: string;
  /** The project that the key is bound to, if it is bound to one. */
  readonly projectId: string | null;
  readonly keyId: string;
  readonly actor: string;
  readonly requestId: string;
  readonly traceparent?: string;
};

/** What a caller asked for, for the audit trail. */
export const actionOf = (caller: Caller, event: string, details: Readonly<Record<string, unknown>>): AuditAction => ({
  orgId: caller.clientId,
  projectId: caller.projectId,
  event,
  requester: { actor: caller.actor, requestId: caller.requestId },
  details,
});
