import type { ExecutionContext } from '../../../services/execution/context.ts';
import { redeliver } from '../../../services/webhooks/redeliver.ts';
import type { Http } from '../../door.ts';
import { answer } from '../../shared/shapes.ts';
import { callerOf, needs, problemResponses } from '../operation.ts';
import { DeliveryParams, WebhookDeliveryQueued } from '../schemas/delivery.ts';

const schema = {
  operationId: 'redeliver',
  summary: 'Deliver again',
  description:
    'Sends an event again that was delivered or given up, with the same message id and after everything that waits already.',
  params: DeliveryParams,
  response: { ...problemResponses(404, 409), 202: answer(WebhookDeliveryQueued, 'The event is queued again.') },
};

export function redeliverRoute(http: Http, context: ExecutionContext): void {
  const path = '/webhooks/:webhook_id/deliveries/:delivery_id/redeliver';
  http.post(path, { schema, ...needs('jobs:write') }, async (request, reply) => {
    const { webhook_id: webhookId, delivery_id } = request.params;
    const { deliveryId } = await redeliver(context, callerOf(request), { webhookId, deliveryId: delivery_id });
    return reply.code(202).send({ delivery_id: deliveryId });
  });
}
