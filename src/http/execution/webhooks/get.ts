import type { ExecutionContext } from '../../../services/execution/context.ts';
import { readWebhook } from '../../../services/webhooks/read-webhook.ts';
import type { Http } from '../../door.ts';
import { answer } from '../../shared/shapes.ts';
import { callerOf, needs, problemResponses } from '../operation.ts';
import { Webhook, WebhookParams } from '../schemas/webhook.ts';
import { renderWebhook } from './render.ts';

const schema = {
  operationId: 'getWebhook',
  summary: 'Get a webhook',
  description: 'A webhook or callback of the client, whether it is enabled, and how it has fared.',
  params: WebhookParams,
  response: { ...problemResponses(404), 200: answer(Webhook, 'The webhook.') },
};

export function getWebhookRoute(http: Http, context: ExecutionContext): void {
  http.get('/webhooks/:webhook_id', { schema, ...needs('jobs:read') }, async (request) =>
    renderWebhook(await readWebhook(context, callerOf(request), request.params.webhook_id)),
  );
}
