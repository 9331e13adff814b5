import type { ExecutionContext } from '../../../services/execution/context.ts';
import { redeliverFailed } from '../../../services/webhooks/redeliver.ts';
import type { Http } from '../../door.ts';
import { answer, named } from '../../shared/shapes.ts';
import { callerOf, needs, problemResponses } from '../operation.ts';
import { WebhookReplay, WebhookReplayed } from '../schemas/delivery.ts';
import { WebhookParams } from '../schemas/webhook.ts';
import { readSince } from './read-since.ts';

const schema = {
  operationId: 'redeliverFailed',
  summary: 'Deliver again what failed',
  description: 'Sends everything again that was given up since then, in the order of the events, at most 10000 a call.',
  params: WebhookParams,
  body: named(WebhookReplay),
  response: { ...problemResponses(404), 202: answer(WebhookReplayed, 'How many are queued again.') },
};

export function redeliverFailedRoute(http: Http, context: ExecutionContext): void {
  http.post('/webhooks/:webhook_id/redeliver', { schema, ...needs('jobs:write') }, async (request, reply) => {
    const params = { webhookId: request.params.webhook_id, since: readSince(request.body.since) };
    return reply.code(202).send(await redeliverFailed(context, callerOf(request), params));
  });
}
