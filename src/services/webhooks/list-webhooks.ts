import { listWebhooks as listInLedger, type Webhook, type WebhookPage } from '../../ledger/webhooks/webhooks.ts';
import type { Caller, ExecutionContext } from '../execution/context.ts';

export const LISTED_KINDS = ['webhook', 'callback', 'all'] as const;

export type ListWebhooksParams = {
  readonly kind: (typeof LISTED_KINDS)[number];
  readonly limit: number;
  readonly cursor?: string;
};

/** The webhooks of a client, or the targets of its callbacks, the newest first. */
export function listWebhooks(
  { engine }: ExecutionContext,
  { clientId }: Caller,
  { kind, limit, cursor = undefined }: ListWebhooksParams,
): Promise<{ webhooks: Webhook[]; nextCursor: string | null }> {
  const page: WebhookPage = { kind: kind === 'all' ? null : kind, limit, cursor: cursor ?? null };
  return listInLedger(engine.database.api, clientId, page);
}
