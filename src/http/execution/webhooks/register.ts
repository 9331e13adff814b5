import { formatTimestamp } from '../../../core/timestamp.ts';
import type { ExecutionContext } from '../../../services/execution/context.ts';
import { registerWebhook } from '../../../services/webhooks/register-webhook.ts';
import type { Http } from '../../door.ts';
import { answer, named } from '../../shared/shapes.ts';
import { openCallOf } from '../open-call.ts';
import { callerOf, needs, problemResponses } from '../operation.ts';
import { CreationHeaders } from '../schemas/client.ts';
import { WebhookRegistered, WebhookRegistration } from '../schemas/webhook.ts';

const schema = {
  operationId: 'registerWebhook',
  summary: 'Register a webhook',
  description:
    'The events named are sent to the URL from now on, signed as Standard Webhooks say and in their order. A client has at most 100 webhooks, and the same events for the same URL once. A repeat with the same Idempotency-Key answers with the same webhook.',
  headers: CreationHeaders,
  body: named(WebhookRegistration),
  response: { ...problemResponses(409), 201: answer(WebhookRegistered, 'The webhook is registered.') },
};

export function registerWebhookRoute(http: Http, context: ExecutionContext): void {
  http.post('/webhooks', { schema, ...needs('jobs:write') }, async (request, reply) => {
    const { idempotencyKey } = openCallOf(request);
    const registered = await registerWebhook(context, callerOf(request), { webhook: request.body, idempotencyKey });
    const { webhookId, createdAt, secret } = registered;
    return reply.code(201).send({ webhook_id: webhookId, created_at: formatTimestamp(createdAt), secret });
  });
}
