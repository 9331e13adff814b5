import { AppError, type Issue } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { findWebhook, listWebhooks as listInLedger, type Webhook, webhookOwner } from '../../ledger/webhooks/webhooks.ts';
import { foreignResource } from '../execution/client-checks.ts';
import type { Caller, ExecutionContext } from '../execution/context.ts';

export type { Webhook };

export type WebhookRequest = { readonly caller: Caller; readonly webhookId: string };

export async function readWebhook(c: ExecutionContext, request: WebhookRequest): Promise<Webhook> {
  const { caller, webhookId } = request;
  const webhook = isUuid(webhookId) ? await findWebhook(c.engine.database.reads.of(caller.clientId), caller.clientId, webhookId) : null;
  if (webhook === null) throw await absentWebhook(c, request);
  return webhook;
}

/** The error for a webhook that the caller's client does not have. */
export async function absentWebhook(c: ExecutionContext, { caller, webhookId: id }: WebhookRequest): Promise<AppError> {
  if (!isUuid(id) || c.settings.hideForeignJobs) return noSuchWebhook(id);
  const owner = await webhookOwner(c.engine.database.api, id);
  // The caller may have registered the webhook after the first read. Then it is not a foreign webhook.
  if (owner === null || owner === caller.clientId) return noSuchWebhook(id);
  return foreignResource(c, caller, { kind: 'webhook', id });
}

export const LISTED_KINDS = ['webhook', 'callback', 'all'] as const;

export type ListWebhooksRequest = {
  readonly caller: Caller;
  readonly kind: (typeof LISTED_KINDS)[number];
  readonly limit: number;
  readonly cursor?: string;
};

/** The webhooks of a client, or the targets of its callbacks, newest first. */
export function listWebhooks(
  { engine }: ExecutionContext,
  { caller, kind, limit, cursor = undefined }: ListWebhooksRequest,
): Promise<{ webhooks: Webhook[]; nextCursor: string | null }> {
  const page = { kind: kind === 'all' ? null : kind, limit, cursor: cursor ?? null };
  return listInLedger(engine.database.reads.of(caller.clientId), caller.clientId, page);
}

export const noSuchWebhook = (id: string): AppError =>
  new AppError('NOT_FOUND', {
    message: `Webhook ${id.slice(0, 100)} does not exist.`,
    problem: 'RFA_WEBHOOK_NOT_FOUND',
  });

export const webhookConflict = (message: string): AppError => new AppError('CONFLICT', { message, problem: 'RFA_WEBHOOK_CONFLICT' });

export function invalidWebhook(details: readonly Issue[]): AppError {
  const more = details.length > 1 ? ` (and ${details.length - 1} more)` : '';
  return new AppError('INVALID_REQUEST', { message: `${details[0]?.message}${more}`, details });
}
