import { randomUUID } from 'node:crypto';
import { TEST_EVENT, testBody } from '../../core/public-events.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { readClock } from '../../ledger/driver/clock.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { queueMessage } from '../../ledger/webhooks/redeliver.ts';
import type { Caller, ExecutionContext } from '../execution/context.ts';
import { readWebhook } from './read-webhook.ts';
import { noSuchWebhook, webhookConflict } from './webhook-errors.ts';

/** Sends an event that means nothing, in its turn and with everything that other events have. */
export async function testWebhook(c: ExecutionContext, caller: Caller, id: string): Promise<{ deliveryId: string }> {
  const { id: webhookId } = await readWebhook(c, caller, id);
  const { api } = c.engine.database;
  const timestamp = formatTimestamp(await readClock(api));
  const message = { webhookId, id: randomUUID(), event: TEST_EVENT, body: testBody({ webhookId, timestamp }) };
  const result = await inTransaction(api, (client) => queueMessage(client, caller.clientId, message), {
    mayRepeat: true,
  });
  if (result === 'not_found') throw noSuchWebhook(id);
  if (result === 'disabled') throw webhookConflict('The webhook is disabled: enable it first.');
  c.webhooks.onQueued();
  return { deliveryId: message.id };
}
