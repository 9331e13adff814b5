import { inTransaction } from '../../ledger/driver/database.ts';
import { deleteWebhook as deleteInLedger } from '../../ledger/webhooks/change-webhook.ts';
import type { Caller, ExecutionContext } from '../execution/context.ts';
import { readWebhook } from './read-webhook.ts';
import { noSuchWebhook, webhookConflict } from './webhook-errors.ts';

/** Nothing more is sent to it: what waits is dropped, and a call that is under way is the last. */
export async function deleteWebhook(c: ExecutionContext, caller: Caller, id: string): Promise<{ deleted: true }> {
  const { kind } = await readWebhook(c, caller, id);
  if (kind === 'callback') {
    throw webhookConflict(
      'A callback is not registered but named by jobs: disable it with PATCH and {"enabled": false}.',
    );
  }
  const { requestId, clientId } = caller;
  const isDeleted = await inTransaction(c.engine.database.api, (client) => deleteInLedger(client, clientId, id), {
    mayRepeat: true,
  });
  if (!isDeleted) throw noSuchWebhook(id);
  c.telemetry.log.info('webhook.deleted', { request_id: requestId, client_id: clientId, webhook_id: id });
  return { deleted: true };
}
