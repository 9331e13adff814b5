import { isUuid } from '../../core/ids.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { redeliverOne, redeliverFailed as requeueFailed } from '../../ledger/webhooks/redeliver.ts';
import type { Caller, ExecutionContext } from '../execution/context.ts';
import type { DeliveryName } from './list-deliveries.ts';
import { readWebhook } from './read-webhook.ts';
import { noSuchDelivery, noSuchWebhook, webhookConflict } from './webhook-errors.ts';

const MAX_AT_ONCE = 10_000;

/** Sends an event again, with the same message id, after everything that waits already. */
export async function redeliver(
  c: ExecutionContext,
  caller: Caller,
  { webhookId, deliveryId }: DeliveryName,
): Promise<{ deliveryId: string }> {
  const { id } = await readWebhook(c, caller, webhookId);
  if (!isUuid(deliveryId)) throw noSuchDelivery(deliveryId);
  const named = { webhookId: id, id: deliveryId };
  const result = await inTransaction(c.engine.database.api, (client) => redeliverOne(client, caller.clientId, named), {
    mayRepeat: true,
  });
  if (result === 'not_found') throw noSuchDelivery(deliveryId);
  if (result === 'waiting') throw webhookConflict('The delivery has not ended: it is sent, or tried again, anyway.');
  c.webhooks.onQueued();
  return { deliveryId };
}

/** Sends everything again that failed since then, in the order of the events. */
export async function redeliverFailed(
  c: ExecutionContext,
  caller: Caller,
  { webhookId, since }: { readonly webhookId: string; readonly since: Date },
): Promise<{ queued: number }> {
  const { id } = await readWebhook(c, caller, webhookId);
  const wanted = { webhookId: id, since, atMost: MAX_AT_ONCE };
  const queued = await inTransaction(
    c.engine.database.api,
    (client) => requeueFailed(client, caller.clientId, wanted),
    { mayRepeat: true },
  );
  if (queued === null) throw noSuchWebhook(id);
  if (queued > 0) c.webhooks.onQueued();
  return { queued };
}
