import { EVENT_NAMES } from './execution/events.ts';

/** An additional event when a job of the type EMIT_EVENT succeeds. It is not a change of state. */
export const EMITTED_EVENT = 'job.event_emitted';
/** Notifies the other webhooks of an org that the system disabled one of them. */
export const DISABLED_EVENT = 'webhook.disabled';
/** Sent on request, and before the first event of an org to an endpoint. */
export const TEST_EVENT = 'webhook.test';
export const EVERY_EVENT = '*';

export const JOB_EVENT_NAMES = [...EVENT_NAMES, EMITTED_EVENT] as const;

/** The events that a webhook can subscribe to. */
export const SUBSCRIBABLE = [...JOB_EVENT_NAMES, DISABLED_EVENT, EVERY_EVENT] as const;

export type JobEventName = (typeof JOB_EVENT_NAMES)[number];
export type Subscription = (typeof SUBSCRIBABLE)[number];
export type EventName = JobEventName | typeof DISABLED_EVENT | typeof TEST_EVENT;

/** Jobs of this profile send no events. */
export const SILENT_PROFILE = 'fetchbox';

export function subscribes(events: readonly string[], name: EventName): boolean {
  return events.includes(EVERY_EVENT) || events.includes(name);
}

/** The header `webhook-id`: the same for every attempt of a delivery. */
export const messageIdOf = (deliveryId: string): string => `msg_${deliveryId.replaceAll('-', '')}`;

/** The header `webhook-id` of the test message that goes before a delivery. */
export const testMessageIdOf = (messageId: string): string => `${messageId}_test`;

type WebhookBody = { type: EventName; timestamp: string; data: Readonly<Record<string, unknown>> };

/** The text that is signed and sent. */
export function webhookBody({ type, timestamp, data }: WebhookBody): string {
  return JSON.stringify({ type, timestamp, data });
}

export function testBody({ webhookId, timestamp }: { webhookId: string; timestamp: string }): string {
  return webhookBody({ type: TEST_EVENT, timestamp, data: { webhook_id: webhookId, timestamp } });
}

export type DisabledReason = 'gone' | 'failing';

type Notice = { webhookId: string; url: string; reason: DisabledReason; timestamp: string };

export function disabledBody({ webhookId, url, reason, timestamp }: Notice): string {
  return webhookBody({ type: DISABLED_EVENT, timestamp, data: { webhook_id: webhookId, url, reason, timestamp } });
}
