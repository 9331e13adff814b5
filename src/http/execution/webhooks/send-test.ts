import type { ExecutionContext } from '../../../services/execution/context.ts';
import { testWebhook } from '../../../services/webhooks/test-webhook.ts';
import type { Http } from '../../door.ts';
import { answer } from '../../shared/shapes.ts';
import { callerOf, needs, problemResponses } from '../operation.ts';
import { WebhookDeliveryQueued } from '../schemas/delivery.ts';
import { WebhookParams } from '../schemas/webhook.ts';

const schema = {
  operationId: 'testWebhook',
  summary: 'Send a test event',
  description: 'Sends a webhook.test in its turn, whatever events the webhook asks for.',
  params: WebhookParams,
  response: { ...problemResponses(404, 409), 202: answer(WebhookDeliveryQueued, 'The event is queued.') },
};

export function testWebhookRoute(http: Http, context: ExecutionContext): void {
  http.post('/webhooks/:webhook_id/test', { schema, ...needs('jobs:write') }, async (request, reply) => {
    const { deliveryId } = await testWebhook(context, callerOf(request), request.params.webhook_id);
    return reply.code(202).send({ delivery_id: deliveryId });
  });
}
