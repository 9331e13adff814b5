import type { ExecutionContext } from '../../../services/execution/context.ts';
import { listWebhooks } from '../../../services/webhooks/list-webhooks.ts';
import type { Http } from '../../door.ts';
import { answer } from '../../shared/shapes.ts';
import { callerOf, needs } from '../operation.ts';
import { WebhookList, WebhookListQuery } from '../schemas/webhook.ts';
import { renderWebhook } from './render.ts';

const schema = {
  operationId: 'listWebhooks',
  summary: 'List webhooks',
  description:
    'The webhooks of the client, and with kind=callback or kind=all the callbacks of its jobs, newest first.',
  querystring: WebhookListQuery,
  response: { 200: answer(WebhookList, 'A page of webhooks.') },
};

const DEFAULT_LIMIT = 100;

export function listWebhooksRoute(http: Http, context: ExecutionContext): void {
  http.get('/webhooks', { schema, ...needs('jobs:read') }, async (request) => {
    const { kind = 'webhook', limit = DEFAULT_LIMIT, cursor } = request.query;
    const { webhooks, nextCursor } = await listWebhooks(context, callerOf(request), { kind, limit, cursor });
    return { webhooks: webhooks.map(renderWebhook), next_cursor: nextCursor };
  });
}
