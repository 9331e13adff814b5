import type { EventHub, WebhookAttempt } from '../engine/events.ts';
import { ExecutionMetrics } from '../telemetry/execution-metrics.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { nowMs } from '../telemetry/trace.ts';

/** Lets metrics, log and traces follow every call of a webhook from this process, and what is disabled for how it answers. Answers how to stop it. */
export function observeWebhooks(events: EventHub, telemetry: Telemetry): () => void {
  const metrics = new ExecutionMetrics(telemetry);
  const stopDisabled = events.on('webhookDisabled', ({ orgId, webhookId, reason }) => {
    metrics.webhookDisabled(reason);
    telemetry.log.warn('webhook.disabled', { client_id: orgId, webhook_id: webhookId, reason });
  });
  const stopSetAside = events.on('setAside', ({ projection, orgId, recordId, webhookId, error }) => {
    metrics.setAside(projection);
    const ids = { client_id: orgId ?? undefined, webhook_id: webhookId ?? undefined, record_id: recordId };
    telemetry.log.error('event.set_aside', { projection, ...ids, error_message: String(error) });
  });
  const stopAttempts = events.on('webhookAttempt', (attempt) => {
    const isDelivered = attempt.verdict === 'delivered';
    metrics.webhookAttempt(isDelivered);
    const fields = fieldsOf(attempt);
    telemetry.log[isDelivered ? 'info' : 'warn']('webhook.attempt', fields);
    // Part of the job's own trace, so that one shows the way from the submission to the notification.
    telemetry.tracer.start('notify', attempt.traceparent ?? undefined, nowMs() - attempt.durationMs).end(fields);
  });
  return () => {
    stopDisabled();
    stopSetAside();
    stopAttempts();
  };
}

function fieldsOf(attempt: WebhookAttempt) {
  return {
    ...{ client_id: attempt.orgId, webhook_id: attempt.webhookId, delivery_id: attempt.deliveryId },
    ...{ job_id: attempt.jobId ?? undefined, event: attempt.event, attempt: attempt.attempt },
    ...{ verdict: attempt.verdict, status: attempt.status ?? undefined, error_code: attempt.errorCode ?? undefined },
    duration_ms: attempt.durationMs,
  };
}
