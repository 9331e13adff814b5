import type { Static } from 'typebox';
import { type EventName, messageIdOf, type Subscription } from '../../core/public-events.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Delivery } from '../../services/webhooks/deliveries.ts';
import type { Webhook } from '../../services/webhooks/read-webhook.ts';
import type { RotatedSecret } from '../../services/webhooks/rotate-secret.ts';
import { timeOrNull } from './render.ts';
import type { WebhookDelivery } from './schemas/delivery.ts';
import type { WebhookSecret, Webhook as WebhookShape } from './schemas/webhook.ts';

export function renderWebhook(webhook: Webhook): Static<typeof WebhookShape> {
  return {
    webhook_id: webhook.id,
    kind: webhook.kind,
    url: webhook.url,
    events: webhook.events as Subscription[],
    description: webhook.description,
    enabled: webhook.disabledAt === null,
    disabled_at: timeOrNull(webhook.disabledAt),
    disabled_reason: webhook.disabledReason,
    created_at: formatTimestamp(webhook.createdAt),
    updated_at: formatTimestamp(webhook.updatedAt),
    failing_since: timeOrNull(webhook.failingSince),
    consecutive_failures: webhook.failures,
    queued: webhook.queued,
    last_delivery_at: timeOrNull(webhook.lastDeliveryAt),
    totals: {
      delivered: webhook.deliveredTotal,
      attempts: webhook.attemptsTotal,
      failures: webhook.failuresTotal,
    },
  };
}

export function renderDelivery(delivery: Delivery): Static<typeof WebhookDelivery> {
  return {
    delivery_id: delivery.id,
    message_id: messageIdOf(delivery.id),
    event: delivery.event as EventName,
    job_id: delivery.jobId,
    state: delivery.state,
    attempts: delivery.attempts.map(renderAttempt),
    created_at: formatTimestamp(delivery.createdAt),
    ended_at: timeOrNull(delivery.endedAt),
  };
}

const renderAttempt = (attempt: Delivery['attempts'][number]) => ({
  n: attempt.n,
  ended_at: formatTimestamp(attempt.endedAt),
  duration_ms: attempt.durationMs,
  verdict: attempt.verdict,
  status: attempt.status,
  error_code: attempt.errorCode,
  answer: attempt.answer,
});

export const renderSecret = ({ secret, previousExpiresAt }: RotatedSecret): Static<typeof WebhookSecret> => ({
  secret,
  previous_expires_at: timeOrNull(previousExpiresAt),
});
