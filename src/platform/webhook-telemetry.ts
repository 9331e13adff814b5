import type { EventHub, WebhookAttempt } from '../engine/events.ts';
import { ProcessMetrics } from '../telemetry/process-metrics.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { nowMs } from '../telemetry/trace.ts';

/** Records metrics, log lines and traces of webhook calls from this process. Returns a function that stops it. */
export function observeWebhooks(events: EventHub, telemetry: Telemetry): () => void {
  const metrics = new ProcessMetrics(telemetry.metrics);
  const stops = [
    events.on('webhookDisabled', ({ orgId, webhookId, reason }) => {
      metrics.webhookDisabled(reason);
      telemetry.log.warn('webhook.disabled', { client_id: orgId, org_id: orgId, webhook_id: webhookId, reason });
    }),
    events.on('setAside', ({ projection, orgId, recordId, webhookId, error }) => {
      metrics.setAside(projection);
      const ids = { client_id: orgId ?? undefined, webhook_id: webhookId ?? undefined, record_id: recordId };
      telemetry.log.error('event.set_aside', { projection, ...ids, error_message: String(error) });
    }),
    events.on('webhookAttempt', (attempt) => {
      const isDelivered = attempt.verdict === 'delivered';
      metrics.webhookAttempt(isDelivered, attempt.durationMs / 1_000);
      const fields = fieldsOf(attempt);
      telemetry.log[isDelivered ? 'info' : 'warn']('webhook.attempt', fields);
      // The span belongs to the trace of the job, which then reaches from the submission to the notification.
      telemetry.tracer.start('notify', attempt.traceparent ?? undefined, nowMs() - attempt.durationMs).end(fields);
    }),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

function fieldsOf(attempt: WebhookAttempt) {
  return {
    client_id: attempt.orgId,
    org_id: attempt.orgId,
    webhook_id: attempt.webhookId,
    delivery_id: attempt.deliveryId,
    job_id: attempt.jobId ?? undefined,
    job_type: attempt.jobType ?? undefined,
    project_id: attempt.projectId ?? undefined,
    correlation_id: attempt.correlationId ?? undefined,
    event: attempt.event,
    attempt: attempt.attempt,
    verdict: attempt.verdict,
    status: attempt.status ?? undefined,
    error_code: attempt.errorCode ?? undefined,
    duration_ms: attempt.durationMs,
  };
}
