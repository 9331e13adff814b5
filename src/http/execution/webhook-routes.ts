import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { AppError } from '../../core/errors.ts';
import { Issues } from '../../core/issues.ts';
import { readTimestamp } from '../../core/submission-fields.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import { listDeliveries, readDelivery, redeliver, redeliverFailed, testWebhook } from '../../services/webhooks/deliveries.ts';
import { listWebhooks, readWebhook } from '../../services/webhooks/read-webhook.ts';
import { changeWebhook, deleteWebhook, registerWebhook } from '../../services/webhooks/register-webhook.ts';
import { rotateSecret, rotateSecretOfCallbacks } from '../../services/webhooks/rotate-secret.ts';
import type { Http } from '../door.ts';
import { bodyMayBeAbsent, needsOrg } from '../shared/route-options.ts';
import { answer, named } from '../shared/shapes.ts';
import { callerOf, creationHeadersOf } from './operation.ts';
import { renderDelivery, renderSecret, renderWebhook } from './render-webhook.ts';
import { CreationHeaders } from './schemas/client.ts';
import {
  DeliveryListQuery,
  DeliveryParams,
  WebhookDeliveryDetails,
  WebhookDeliveryList,
  WebhookDeliveryQueued,
  WebhookReplay,
  WebhookReplayed,
} from './schemas/delivery.ts';
import { problemResponses } from './schemas/problem.ts';
import {
  Webhook,
  WebhookChange,
  WebhookDeletion,
  WebhookList,
  WebhookListQuery,
  WebhookParams,
  WebhookRegistered,
  WebhookRegistration,
  WebhookRotation,
  WebhookSecret,
} from './schemas/webhook.ts';

const DEFAULT_WEBHOOKS = 100;
const DEFAULT_DELIVERIES = 50;

const webhookOf = (request: FastifyRequest & { readonly params: Static<typeof WebhookParams> }) => ({
  caller: callerOf(request),
  webhookId: request.params.webhook_id,
});

const registerSchema = {
  operationId: 'registerWebhook',
  summary: 'Register a webhook',
  description:
    'Sends the named events to the URL from now on, in order, signed according to Standard Webhooks. A client has at most 100 webhooks, and at most one for the same events and URL. A repeat with the same Idempotency-Key returns the same webhook.',
  headers: CreationHeaders,
  body: named(WebhookRegistration),
  response: { ...problemResponses(409), 201: answer(WebhookRegistered, 'The webhook is registered.') },
};

function registerWebhookRoute(http: Http, context: ExecutionContext): void {
  http.post('/webhooks', { schema: registerSchema, ...needsOrg('jobs:write') }, async (request, reply) => {
    const { idempotencyKey } = creationHeadersOf(request);
    const params = { caller: callerOf(request), webhook: request.body, idempotencyKey };
    const { webhookId, createdAt, secret } = await registerWebhook(context, params);
    return reply.code(201).send({ webhook_id: webhookId, created_at: formatTimestamp(createdAt), secret });
  });
}

const listSchema = {
  operationId: 'listWebhooks',
  summary: 'List webhooks',
  description:
    'Returns the webhooks of the client, newest first. With kind=callback or kind=all it returns the callbacks of its jobs as well.',
  querystring: WebhookListQuery,
  response: { 200: answer(WebhookList, 'A page of webhooks.') },
};

function listWebhooksRoute(http: Http, context: ExecutionContext): void {
  http.get('/webhooks', { schema: listSchema, ...needsOrg('jobs:read') }, async (request) => {
    const { kind = 'webhook', limit = DEFAULT_WEBHOOKS, cursor } = request.query;
    const { webhooks, nextCursor } = await listWebhooks(context, { caller: callerOf(request), kind, limit, cursor });
    return { webhooks: webhooks.map(renderWebhook), next_cursor: nextCursor };
  });
}

const getSchema = {
  operationId: 'getWebhook',
  summary: 'Get a webhook',
  description: 'Returns a webhook or callback of the client, whether it is enabled, and its statistics.',
  params: WebhookParams,
  response: { ...problemResponses(404), 200: answer(Webhook, 'The webhook.') },
};

function getWebhookRoute(http: Http, context: ExecutionContext): void {
  http.get('/webhooks/:webhook_id', { schema: getSchema, ...needsOrg('jobs:read') }, async (request) =>
    renderWebhook(await readWebhook(context, webhookOf(request))),
  );
}

const changeSchema = {
  operationId: 'changeWebhook',
  summary: 'Change a webhook',
  description:
    'Enabling a webhook or changing its URL resets its failures and sends the events that wait for it. A new list of events applies from now on. Only enabled can be changed for a callback.',
  params: WebhookParams,
  body: named(WebhookChange),
  response: { ...problemResponses(404, 409), 200: answer(Webhook, 'The webhook as it is now.') },
};

function changeWebhookRoute(http: Http, context: ExecutionContext): void {
  http.patch('/webhooks/:webhook_id', { schema: changeSchema, ...needsOrg('jobs:write') }, async (request) => {
    const params = { ...webhookOf(request), update: request.body };
    return renderWebhook(await changeWebhook(context, params));
  });
}

const deleteSchema = {
  operationId: 'deleteWebhook',
  summary: 'Delete a webhook',
  description:
    'Discards the events that wait for the webhook. A call in flight is the last one. A callback cannot be deleted, only disabled.',
  params: WebhookParams,
  response: { ...problemResponses(404, 409), 200: answer(WebhookDeletion, 'The webhook is deleted.') },
};

function deleteWebhookRoute(http: Http, context: ExecutionContext): void {
  http.delete('/webhooks/:webhook_id', { schema: deleteSchema, ...needsOrg('jobs:write') }, (request) =>
    deleteWebhook(context, webhookOf(request)),
  );
}

const rotateSchema = {
  operationId: 'rotateWebhookSecret',
  summary: 'Rotate the secret of a webhook',
  description:
    'Creates a new secret. Until the overlap ends, messages carry a signature of the old and of the new secret. An even older secret stops working immediately.',
  params: WebhookParams,
  body: named(WebhookRotation),
  response: { ...problemResponses(404, 409), 200: answer(WebhookSecret, 'The new secret.') },
};

function rotateSecretRoute(http: Http, context: ExecutionContext): void {
  const options = { schema: rotateSchema, ...needsOrg('jobs:write'), ...bodyMayBeAbsent };
  http.post('/webhooks/:webhook_id/secret/rotate', options, async (request) => {
    const params = { ...webhookOf(request), ...request.body };
    return renderSecret(await rotateSecret(context, params));
  });
}

const callbackSecretSchema = {
  operationId: 'rotateCallbackSecret',
  summary: 'Rotate the secret of callbacks',
  description:
    'Creates and returns a new secret for the callbacks of all jobs of the client. The old secret stays valid until the overlap ends.',
  body: named(WebhookRotation),
  response: { 200: answer(WebhookSecret, 'The new secret.') },
};

function callbackSecretRoute(http: Http, context: ExecutionContext): void {
  const options = { schema: callbackSecretSchema, ...needsOrg('jobs:write'), ...bodyMayBeAbsent };
  http.post('/webhooks/callbacks/secret', options, async (request) =>
    renderSecret(await rotateSecretOfCallbacks(context, { caller: callerOf(request), ...request.body })),
  );
}

const testSchema = {
  operationId: 'testWebhook',
  summary: 'Send a test event',
  description: 'Queues a webhook.test event, even if the webhook does not subscribe to it.',
  params: WebhookParams,
  response: { ...problemResponses(404, 409), 202: answer(WebhookDeliveryQueued, 'The event is queued.') },
};

function testWebhookRoute(http: Http, context: ExecutionContext): void {
  http.post('/webhooks/:webhook_id/test', { schema: testSchema, ...needsOrg('jobs:write') }, async (request, reply) => {
    const { deliveryId } = await testWebhook(context, webhookOf(request));
    return reply.code(202).send({ delivery_id: deliveryId });
  });
}

const listDeliveriesSchema = {
  operationId: 'listDeliveries',
  summary: 'List deliveries',
  description: 'Returns the events for a webhook with all attempts to deliver them, newest first.',
  params: WebhookParams,
  querystring: DeliveryListQuery,
  response: { ...problemResponses(404), 200: answer(WebhookDeliveryList, 'A page of deliveries.') },
};

function listDeliveriesRoute(http: Http, context: ExecutionContext): void {
  const options = { schema: listDeliveriesSchema, ...needsOrg('jobs:read') };
  http.get('/webhooks/:webhook_id/deliveries', options, async (request) => {
    const { state, event, since, limit = DEFAULT_DELIVERIES, cursor } = request.query;
    const filter = { state, event, ...(since === undefined ? {} : { since: readSince(since) }) };
    const params = { ...webhookOf(request), filter, limit, cursor };
    const { deliveries, nextCursor } = await listDeliveries(context, params);
    return { deliveries: deliveries.map(renderDelivery), next_cursor: nextCursor };
  });
}

const getDeliverySchema = {
  operationId: 'getDelivery',
  summary: 'Get a delivery',
  description: 'Returns one event for a webhook, the attempts to deliver it, and the text that is sent.',
  params: DeliveryParams,
  response: { ...problemResponses(404), 200: answer(WebhookDeliveryDetails, 'The delivery.') },
};

function getDeliveryRoute(http: Http, context: ExecutionContext): void {
  const options = { schema: getDeliverySchema, ...needsOrg('jobs:read') };
  http.get('/webhooks/:webhook_id/deliveries/:delivery_id', options, async (request) => {
    const deliveryId = request.params.delivery_id;
    const delivery = await readDelivery(context, { ...webhookOf(request), deliveryId });
    return { ...renderDelivery(delivery), body: delivery.body };
  });
}

const redeliverSchema = {
  operationId: 'redeliver',
  summary: 'Deliver an event again',
  description:
    'Queues an event again that was delivered or has failed. It keeps its message id and is sent after the events that already wait.',
  params: DeliveryParams,
  response: { ...problemResponses(404, 409), 202: answer(WebhookDeliveryQueued, 'The event is queued again.') },
};

function redeliverRoute(http: Http, context: ExecutionContext): void {
  const options = { schema: redeliverSchema, ...needsOrg('jobs:write') };
  http.post('/webhooks/:webhook_id/deliveries/:delivery_id/redeliver', options, async (request, reply) => {
    const { delivery_id } = request.params;
    await redeliver(context, { ...webhookOf(request), deliveryId: delivery_id });
    return reply.code(202).send({ delivery_id });
  });
}

const redeliverFailedSchema = {
  operationId: 'redeliverFailed',
  summary: 'Deliver all failed events again',
  description: 'Queues all events again that failed since the given time, in order, at most 10000 per request.',
  params: WebhookParams,
  body: named(WebhookReplay),
  response: { ...problemResponses(404), 202: answer(WebhookReplayed, 'How many events are queued again.') },
};

function redeliverFailedRoute(http: Http, context: ExecutionContext): void {
  const options = { schema: redeliverFailedSchema, ...needsOrg('jobs:write') };
  http.post('/webhooks/:webhook_id/redeliver', options, async (request, reply) => {
    const since = readSince(request.body.since);
    const params = { ...webhookOf(request), since };
    return reply.code(202).send(await redeliverFailed(context, params));
  });
}

function readSince(text: string): Date {
  const issues = new Issues();
  const since = readTimestamp(text, 'since', issues);
  if (since === null) throw new AppError('INVALID_REQUEST', { message: issues.list[0]?.message, details: issues.list });
  return since;
}

/** All routes below `/v1/webhooks`. */
export const WEBHOOK_ROUTES = [
  registerWebhookRoute,
  listWebhooksRoute,
  getWebhookRoute,
  changeWebhookRoute,
  deleteWebhookRoute,
  rotateSecretRoute,
  callbackSecretRoute,
  testWebhookRoute,
  listDeliveriesRoute,
  getDeliveryRoute,
  redeliverRoute,
  redeliverFailedRoute,
];
