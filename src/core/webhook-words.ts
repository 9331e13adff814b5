/** `callback`: the address that jobs of the org name themselves. */
export const WEBHOOK_KINDS = ['webhook', 'callback'] as const;
export type WebhookKind = (typeof WEBHOOK_KINDS)[number];

/** `gone`: the endpoint answered 410. `failing`: it failed for so long that it was given up. */
export const DISABLED_REASONS = ['manual', 'gone', 'failing'] as const;
export type WebhookDisabledReason = (typeof DISABLED_REASONS)[number];

/** As callers are told: what is live is being delivered, or tried again once an attempt has failed. */
export const DELIVERY_STATES = ['queued', 'delivering', 'retrying', 'delivered', 'failed'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/**
 * `retry`: failed, to be tried again. `gone`: answered with 410. `interrupted`: its worker was lost or stopped before it could tell, so
 * nobody knows whether it arrived.
 */
export const ATTEMPT_VERDICTS = ['delivered', 'retry', 'failed', 'gone', 'interrupted'] as const;
export type AttemptVerdict = (typeof ATTEMPT_VERDICTS)[number];
