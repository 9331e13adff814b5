import type { ExecutionContext } from '../../../services/execution/context.ts';
import { listDeliveries } from '../../../services/webhooks/list-deliveries.ts';
import type { Http } from '../../door.ts';
import { answer } from '../../shared/shapes.ts';
import { callerOf, needs, problemResponses } from '../operation.ts';
import { DeliveryListQuery, WebhookDeliveryList } from '../schemas/delivery.ts';
import { WebhookParams } from '../schemas/webhook.ts';
import { readSince } from './read-since.ts';
import { renderDelivery } from './render.ts';

const schema = {
  operationId: 'listDeliveries',
  summary: 'List deliveries',
  description: 'The events for a webhook and what became of them, attempt by attempt, newest first.',
  params: WebhookParams,
  querystring: DeliveryListQuery,
  response: { ...problemResponses(404), 200: answer(WebhookDeliveryList, 'A page of deliveries.') },
};

const DEFAULT_LIMIT = 50;

export function listDeliveriesRoute(http: Http, context: ExecutionContext): void {
  http.get('/webhooks/:webhook_id/deliveries', { schema, ...needs('jobs:read') }, async (request) => {
    const { state, event, since, limit = DEFAULT_LIMIT, cursor } = request.query;
    const filter = { state, event, ...(since === undefined ? {} : { since: readSince(since) }) };
    const params = { webhookId: request.params.webhook_id, filter, limit, cursor };
    const { deliveries, nextCursor } = await listDeliveries(context, callerOf(request), params);
    return { deliveries: deliveries.map(renderDelivery), next_cursor: nextCursor };
  });
}
