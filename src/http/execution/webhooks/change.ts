import type { ExecutionContext } from '../../../services/execution/context.ts';
import { changeWebhook } from '../../../services/webhooks/change-webhook.ts';
import type { Http } from '../../door.ts';
import { answer, named } from '../../shared/shapes.ts';
import { callerOf, needs, problemResponses } from '../operation.ts';
import { Webhook, WebhookChange, WebhookParams } from '../schemas/webhook.ts';
import { renderWebhook } from './render.ts';

const schema = {
  operationId: 'changeWebhook',
  summary: 'Change a webhook',
  description:
    'Enabling it, or giving it another URL, forgets its failures and starts what waits. Other events count for what happens from now on. Of a callback only enabled can be changed.',
  params: WebhookParams,
  body: named(WebhookChange),
  response: { ...problemResponses(404, 409), 200: answer(Webhook, 'The webhook as it is now.') },
};

export function changeWebhookRoute(http: Http, context: ExecutionContext): void {
  http.patch('/webhooks/:webhook_id', { schema, ...needs('jobs:write') }, async (request) => {
    const params = { id: request.params.webhook_id, update: request.body };
    return renderWebhook(await changeWebhook(context, callerOf(request), params));
  });
}
