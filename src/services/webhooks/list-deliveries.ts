import { isUuid } from '../../core/ids.ts';
import {
  type Delivery,
  type DeliveryFilter,
  findDelivery,
  listDeliveries as listInLedger,
} from '../../ledger/webhooks/webhook-deliveries.ts';
import type { Caller, ExecutionContext } from '../execution/context.ts';
import { readWebhook } from './read-webhook.ts';
import { noSuchDelivery } from './webhook-errors.ts';

export type { Delivery };

export type ListDeliveriesParams = {
  readonly webhookId: string;
  readonly filter: DeliveryFilter;
  readonly limit: number;
  readonly cursor?: string;
};

/** What was sent, is being sent and waits to be sent to a webhook, the newest event first. */
export async function listDeliveries(
  c: ExecutionContext,
  caller: Caller,
  { webhookId, filter, limit, cursor }: ListDeliveriesParams,
): Promise<{ deliveries: Delivery[]; nextCursor: string | null }> {
  const { id } = await readWebhook(c, caller, webhookId);
  const page = { webhookId: id, filter, limit, cursor: cursor ?? null };
  return listInLedger(c.engine.database.api, caller.clientId, page);
}

export type DeliveryName = { readonly webhookId: string; readonly deliveryId: string };

/** One delivery, with the text that is signed and sent. */
export async function readDelivery(
  c: ExecutionContext,
  caller: Caller,
  { webhookId, deliveryId }: DeliveryName,
): Promise<Delivery & { readonly body: string }> {
  const { id } = await readWebhook(c, caller, webhookId);
  const named = { webhookId: id, id: deliveryId };
  const found = isUuid(deliveryId) ? await findDelivery(c.engine.database.api, caller.clientId, named) : null;
  if (found === null) throw noSuchDelivery(deliveryId);
  return found;
}
