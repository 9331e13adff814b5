import { randomUUID } from 'node:crypto';
import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { TEST_EVENT, testBody } from '../../core/public-events.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { readClock } from '../../ledger/driver/clock.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { queueMessage, redeliverOne, redeliverFailed as requeueFailed } from '../../ledger/webhooks/redeliver.ts';
import {
  type Delivery,
  type DeliveryFilter,
  findDelivery,
  listDeliveries as listInLedger,
} from '../../ledger/webhooks/webhook-deliveries.ts';
import { actionOf, type ExecutionContext } from '../execution/context.ts';
import { noSuchWebhook, readWebhook, type WebhookRequest, webhookConflict } from './read-webhook.ts';

export type { Delivery };

export type ListDeliveriesRequest = WebhookRequest & {
  readonly filter: DeliveryFilter;
  readonly limit: number;
  readonly cursor?: string;
};

/** The deliveries of a webhook in any state, those of the newest event first. */
export async function listDeliveries(
  c: ExecutionContext,
  { filter, limit, cursor, ...request }: ListDeliveriesRequest,
): Promise<{ deliveries: Delivery[]; nextCursor: string | null }> {
  const { id: webhookId } = await readWebhook(c, request);
  const page = { webhookId, filter, limit, cursor: cursor ?? null };
  return listInLedger(c.engine.database.reads.of(request.caller.clientId), request.caller.clientId, page);
}

export type DeliveryRequest = WebhookRequest & { readonly deliveryId: string };

/** One delivery, with the text that is signed and sent. */
export async function readDelivery(c: ExecutionContext, request: DeliveryRequest): Promise<Delivery & { readonly body: string }> {
  const { caller, deliveryId: id } = request;
  const { id: webhookId } = await readWebhook(c, request);
  const found = isUuid(id) ? await findDelivery(c.engine.database.reads.of(caller.clientId), caller.clientId, { webhookId, id }) : null;
  if (found === null) throw noSuchDelivery(id);
  return found;
}

/** Sends an event again under the same message id, after the events that already wait. */
export async function redeliver(c: ExecutionContext, request: DeliveryRequest): Promise<void> {
  const { caller, deliveryId } = request;
  const { id: webhookId } = await readWebhook(c, request);
  if (!isUuid(deliveryId)) throw noSuchDelivery(deliveryId);
  const named = { webhookId, id: deliveryId };
  const result = await inTransaction(
    c.engine.database.api,
    async (client) => {
      const done = await redeliverOne(client, caller.clientId, named);
      const details = { webhook_id: webhookId, delivery_id: deliveryId };
      if (done === 'queued') await recordActions(client, [actionOf(caller, 'webhook.redelivered', details)]);
      return done;
    },
    { mayRepeat: true },
  );
  if (result === 'not_found') throw noSuchDelivery(deliveryId);
  if (result === 'waiting') throw webhookConflict('The delivery is still in progress: it needs no redelivery.');
  c.webhooks.onQueued();
}

const MAX_AT_ONCE = 10_000;

/** Sends all events again whose delivery failed since the given time, in the order of the events. */
export async function redeliverFailed(
  c: ExecutionContext,
  { since, ...request }: WebhookRequest & { readonly since: Date },
): Promise<{ queued: number }> {
  const { id: webhookId } = await readWebhook(c, request);
  const failed = { webhookId, since, atMost: MAX_AT_ONCE };
  const queued = await inTransaction(
    c.engine.database.api,
    async (client) => {
      const done = await requeueFailed(client, request.caller.clientId, failed);
      const details = { webhook_id: webhookId, since: since.toISOString(), queued: done };
      if (done !== null) await recordActions(client, [actionOf(request.caller, 'webhook.redelivered', details)]);
      return done;
    },
    { mayRepeat: true },
  );
  if (queued === null) throw noSuchWebhook(webhookId);
  if (queued > 0) c.webhooks.onQueued();
  return { queued };
}

/** Sends a test event. It waits its turn and is signed and retried like any other event. */
export async function testWebhook(c: ExecutionContext, request: WebhookRequest): Promise<{ deliveryId: string }> {
  const { id: webhookId } = await readWebhook(c, request);
  const { api } = c.engine.database;
  const timestamp = formatTimestamp(await readClock(api));
  const message = { webhookId, id: randomUUID(), event: TEST_EVENT, body: testBody({ webhookId, timestamp }) };
  const result = await inTransaction(api, (client) => queueMessage(client, request.caller.clientId, message), {
    mayRepeat: true,
  });
  if (result === 'not_found') throw noSuchWebhook(webhookId);
  if (result === 'disabled') throw webhookConflict('The webhook is disabled: enable it first.');
  c.webhooks.onQueued();
  return { deliveryId: message.id };
}

const noSuchDelivery = (id: string): AppError =>
  new AppError('NOT_FOUND', {
    message: `Delivery ${id.slice(0, 100)} of this webhook does not exist.`,
    problem: 'RFA_WEBHOOK_NOT_FOUND',
  });
