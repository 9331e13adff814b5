import { type CheckedWebhookUpdate, checkWebhookUpdate, type WebhookUpdate } from '../../core/webhook-request.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { changeWebhook as changeInLedger } from '../../ledger/webhooks/change-webhook.ts';
import type { Caller, ExecutionContext } from '../execution/context.ts';
import { requireReachableUrl } from './check-url.ts';
import { readWebhook, type Webhook } from './read-webhook.ts';
import { invalidWebhook, registeredTwice, webhookConflict } from './webhook-errors.ts';

export type ChangeWebhookParams = { readonly id: string; readonly update: WebhookUpdate };

/** Changes a webhook. Enabling it, or giving it another URL, forgets how often it failed and starts what waits for it. */
export async function changeWebhook(
  c: ExecutionContext,
  caller: Caller,
  { id, update }: ChangeWebhookParams,
): Promise<Webhook> {
  const checked = checkWebhookUpdate(update, c.webhooks.addresses);
  if (!checked.ok) throw invalidWebhook(checked.issues);
  const { webhook: change } = checked;
  const before = await readWebhook(c, caller, id);
  if (before.kind === 'callback') refuseForCallback(change);
  if (change.url !== undefined) await requireReachableUrl(c.webhooks.guard, change.url);
  const params = { webhookId: id, change };
  await inTransaction(
    c.engine.database.api,
    async (client) => {
      const result = await changeInLedger(client, caller.clientId, params);
      if (result === 'exists') throw registeredTwice();
    },
    { mayRepeat: true },
  );
  c.webhooks.onQueued();
  return readWebhook(c, caller, id);
}

function refuseForCallback({ enabled: _, ...others }: CheckedWebhookUpdate): void {
  const [member] = Object.keys(others);
  if (member === undefined) return;
  throw webhookConflict(`The ${member} of a callback comes from the jobs that name it; only enabled can be changed.`);
}
