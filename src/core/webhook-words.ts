/** `webhook`: registered by the org. `callback`: the callback URLs of the org's jobs. */
export const WEBHOOK_KINDS = ['webhook', 'callback'] as const;
export type WebhookKind = (typeof WEBHOOK_KINDS)[number];

/** `gone`: the endpoint returned 410. `failing`: it failed for longer than the configured time. */
export const DISABLED_REASONS = ['manual', 'gone', 'failing'] as const;
export type WebhookDisabledReason = (typeof DISABLED_REASONS)[number];

/** `retrying`: an attempt failed and another one follows. */
export const DELIVERY_STATES = ['queued', 'delivering', 'retrying', 'delivered', 'failed'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/**
 * `retry`: failed, and another attempt follows. `gone`: the endpoint returned 410. `interrupted`: the worker ended before it
 * recorded the result, so the request may or may not have arrived.
 */
export const ATTEMPT_VERDICTS = ['delivered', 'retry', 'failed', 'gone', 'interrupted'] as const;
export type AttemptVerdict = (typeof ATTEMPT_VERDICTS)[number];
