import type { ExecutionContext } from '../../../services/execution/context.ts';
import { rotateClientCallbackSecret } from '../../../services/webhooks/rotate-secret.ts';
import type { Http } from '../../door.ts';
import { answer, named } from '../../shared/shapes.ts';
import { bodyMayBeAbsent, callerOf, needs } from '../operation.ts';
import { WebhookRotation, WebhookSecret } from '../schemas/webhook.ts';
import { renderSecret } from './render.ts';

const schema = {
  operationId: 'rotateCallbackSecret',
  summary: 'Rotate the secret of callbacks',
  description:
    'Makes and shows a new secret for the callbacks of all jobs of the client. The one before counts until the overlap ends.',
  body: named(WebhookRotation),
  response: { 200: answer(WebhookSecret, 'The new secret.') },
};

export function callbackSecretRoute(http: Http, context: ExecutionContext): void {
  const options = { schema, ...needs('jobs:write'), ...bodyMayBeAbsent };
  http.post('/webhooks/callbacks/secret', options, async (request) =>
    renderSecret(await rotateClientCallbackSecret(context, callerOf(request), request.body)),
  );
}
