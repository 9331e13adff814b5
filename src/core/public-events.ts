import { EVENT_NAMES } from './execution/events.ts';

/** Sent once more to whoever follows the job when a job of the type EMIT_EVENT succeeds; no change of state. */
export const EMITTED_EVENT = 'job.event_emitted';
/** Tells the other webhooks of an org that the system disabled one of them. */
export const DISABLED_EVENT = 'webhook.disabled';
/** Only sent by hand. */
export const TEST_EVENT = 'webhook.test';
export const EVERY_EVENT = '*';

export const JOB_EVENT_NAMES = [...EVENT_NAMES, EMITTED_EVENT] as const;

/** What a webhook may ask for. */
export const SUBSCRIBABLE = [...JOB_EVENT_NAMES, DISABLED_EVENT, EVERY_EVENT] as const;

export type JobEventName = (typeof JOB_EVENT_NAMES)[number];
export type Subscription = (typeof SUBSCRIBABLE)[number];
export type EventName = JobEventName | typeof DISABLED_EVENT | typeof TEST_EVENT;

/** Jobs of this profile tell nobody. */
export const SILENT_PROFILE = 'fetchbox';

export function subscribes(events: readonly string[], name: EventName): boolean {
  return events.includes(EVERY_EVENT) || events.includes(name);
}

/** The same delivery always has the same `webhook-id`. */
export const messageIdOf = (deliveryId: string): string => `msg_${deliveryId.replaceAll('-', '')}`;

/** What is signed and sent. */
export function webhookBody(body: {
  type: EventName;
  timestamp: string;
  data: Readonly<Record<string, unknown>>;
}): string {
  const { type, timestamp, data } = body;
  return JSON.stringify({ type, timestamp, data });
}

/** A `webhook.test` names the webhook and nothing else. */
export function testBody({ webhookId, timestamp }: { webhookId: string; timestamp: string }): string {
  return webhookBody({ type: TEST_EVENT, timestamp, data: { webhook_id: webhookId, timestamp } });
}

export type DisabledReason = 'gone' | 'failing';

export function disabledBody(notice: {
  webhookId: string;
  url: string;
  reason: DisabledReason;
  timestamp: string;
}): string {
  const { webhookId, url, reason, timestamp } = notice;
  return webhookBody({ type: DISABLED_EVENT, timestamp, data: { webhook_id: webhookId, url, reason, timestamp } });
}
