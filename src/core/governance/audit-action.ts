/** The org of actions that concern no org's data. */
export const NIL_ORG_ID = '00000000-0000-0000-0000-000000000000';

export const MAX_REASON_LENGTH = 1_000;

/** Who asked for an action, with which request. */
export type Requester = {
  /** `user:`, `system:` or `api_key:`, and an id. */
  readonly actor: string;
  readonly requestId: string | null;
  readonly correlationId?: string | null;
  /** Why, in the requester's own words. */
  readonly reason?: string | null;
};

/** The requester of actions that a program takes through the library, without a request. */
export const BY_PROGRAM: Requester = Object.freeze({ actor: 'system:millrace', requestId: null });

/** An action that somebody asked for, as the audit trail shows it. */
export type AuditAction = {
  readonly orgId: string;
  readonly projectId?: string | null;
  /** For example `queue.paused` or `deadletter.replayed`. */
  readonly event: string;
  readonly requester: Requester;
  readonly jobId?: string | null;
  readonly jobType?: string | null;
  readonly attempt?: number | null;
  /** What changed, without payloads and secrets. */
  readonly details?: Readonly<Record<string, unknown>>;
};
