import type { ExecutionContext } from '../../../services/execution/context.ts';
import { rotateSecret } from '../../../services/webhooks/rotate-secret.ts';
import type { Http } from '../../door.ts';
import { answer, named } from '../../shared/shapes.ts';
import { bodyMayBeAbsent, callerOf, needs, problemResponses } from '../operation.ts';
import { WebhookParams, WebhookRotation, WebhookSecret } from '../schemas/webhook.ts';
import { renderSecret } from './render.ts';

const schema = {
  operationId: 'rotateWebhookSecret',
  summary: 'Rotate the secret of a webhook',
  description:
    'Makes a new secret. Until the overlap ends messages carry a signature of each, so receivers can change over at their leisure; a secret before that one ends at once.',
  params: WebhookParams,
  body: named(WebhookRotation),
  response: { ...problemResponses(404, 409), 200: answer(WebhookSecret, 'The new secret.') },
};

export function rotateSecretRoute(http: Http, context: ExecutionContext): void {
  const options = { schema, ...needs('jobs:write'), ...bodyMayBeAbsent };
  http.post('/webhooks/:webhook_id/secret/rotate', options, async (request) => {
    const params = { id: request.params.webhook_id, ...request.body };
    return renderSecret(await rotateSecret(context, callerOf(request), params));
  });
}
