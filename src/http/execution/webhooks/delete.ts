import type { ExecutionContext } from '../../../services/execution/context.ts';
import { deleteWebhook } from '../../../services/webhooks/delete-webhook.ts';
import type { Http } from '../../door.ts';
import { answer } from '../../shared/shapes.ts';
import { callerOf, needs, problemResponses } from '../operation.ts';
import { WebhookDeletion, WebhookParams } from '../schemas/webhook.ts';

const schema = {
  operationId: 'deleteWebhook',
  summary: 'Unregister a webhook',
  description:
    'Nothing more is sent to it: what waits is dropped, and a call that is under way is the last. A callback cannot be unregistered, only disabled.',
  params: WebhookParams,
  response: { ...problemResponses(404, 409), 200: answer(WebhookDeletion, 'The webhook is gone.') },
};

export function deleteWebhookRoute(http: Http, context: ExecutionContext): void {
  http.delete('/webhooks/:webhook_id', { schema, ...needs('jobs:write') }, (request) =>
    deleteWebhook(context, callerOf(request), request.params.webhook_id),
  );
}
