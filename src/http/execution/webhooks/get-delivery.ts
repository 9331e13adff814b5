import type { ExecutionContext } from '../../../services/execution/context.ts';
import { readDelivery } from '../../../services/webhooks/list-deliveries.ts';
import type { Http } from '../../door.ts';
import { answer } from '../../shared/shapes.ts';
import { callerOf, needs, problemResponses } from '../operation.ts';
import { DeliveryParams, WebhookDeliveryDetails } from '../schemas/delivery.ts';
import { renderDelivery } from './render.ts';

const schema = {
  operationId: 'getDelivery',
  summary: 'Get a delivery',
  description: 'One event for a webhook: what became of it, and the text that is sent.',
  params: DeliveryParams,
  response: { ...problemResponses(404), 200: answer(WebhookDeliveryDetails, 'The delivery.') },
};

export function getDeliveryRoute(http: Http, context: ExecutionContext): void {
  http.get('/webhooks/:webhook_id/deliveries/:delivery_id', { schema, ...needs('jobs:read') }, async (request) => {
    const { webhook_id: webhookId, delivery_id: deliveryId } = request.params;
    const delivery = await readDelivery(context, callerOf(request), { webhookId, deliveryId });
    return { ...renderDelivery(delivery), body: delivery.body };
  });
}
