import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { findWebhook, type Webhook, webhookOwner } from '../../ledger/webhooks/webhooks.ts';
import type { Caller, ExecutionContext } from '../execution/context.ts';
import { noSuchWebhook } from './webhook-errors.ts';

export type { Webhook };

/** A webhook or callback target of the caller's client. */
export async function readWebhook(c: ExecutionContext, caller: Caller, id: string): Promise<Webhook> {
  const webhook = isUuid(id) ? await findWebhook(c.engine.database.api, caller.clientId, id) : null;
  return webhook ?? refuseAbsent(c, caller, id);
}

/** For one that the caller's client does not have: it is a stranger's, or nobody's. */
export async function refuseAbsent(c: ExecutionContext, caller: Caller, id: string): Promise<never> {
  if (!isUuid(id) || c.settings.hideForeignJobs) throw noSuchWebhook(id);
  const owner = await webhookOwner(c.engine.database.api, id);
  // What became this client's since it was looked for is none of a stranger's.
  if (owner === null || owner === caller.clientId) throw noSuchWebhook(id);
  const { requestId, clientId } = caller;
  const reason = 'the webhook belongs to another client';
  c.telemetry.log.warn('access refused', { request_id: requestId, client_id: clientId, webhook_id: id, reason });
  throw new AppError('FORBIDDEN', {
    message: `Webhook ${id} belongs to another client.`,
    problem: 'RFA_AUTH_FORBIDDEN',
  });
}
