import { randomBytes } from 'node:crypto';
import type { DurationInput } from '../../core/duration.ts';
import { Issues } from '../../core/issues.ts';
import { readDuration } from '../../core/submission-fields.ts';
import { formatSecret, WEBHOOK_SECRET_BYTES } from '../../core/webhook-signature.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { lockLane } from '../../ledger/webhooks/change-webhook.ts';
import { type NextWebhookSecret, rotateCallbackSecret, rotateWebhookSecret } from '../../ledger/webhooks/webhook-secrets.ts';
import { actionOf, type Caller, type ExecutionContext } from '../execution/context.ts';
import { absentWebhook, invalidWebhook, readWebhook, type WebhookRequest, webhookConflict } from './read-webhook.ts';

/** How long the old secret stays valid. Default: as configured. */
type Overlap = { readonly overlap?: DurationInput };

export type RotatedSecret = { readonly secret: string; readonly previousExpiresAt: Date | null };

const MAX_OVERLAP_MS = 30 * 86_400_000;

/** Creates a new secret for a webhook. While the old one is valid, messages carry a signature of each. */
export async function rotateSecret(c: ExecutionContext, request: WebhookRequest & Overlap): Promise<RotatedSecret> {
  const next = nextSecret(c, request);
  const { clientId } = request.caller;
  const { kind, id: webhookId } = await readWebhook(c, request);
  if (kind === 'callback') {
    throw webhookConflict('All callbacks of a client share one secret: use POST /v1/webhooks/callbacks/secret.');
  }
  const rotated = await inTransaction(
    c.engine.database.api,
    async (client) => {
      if (!(await lockLane(client, clientId, webhookId))) return null;
      const expiresAt = await rotateWebhookSecret(client, clientId, { webhookId, ...next });
      await recordActions(client, [actionOf(request.caller, 'webhook.rotated', { webhook_id: webhookId })]);
      return { expiresAt };
    },
    { mayRepeat: true },
  );
  if (rotated === null) throw await absentWebhook(c, request);
  logRotation(c, request.caller, { webhook_id: webhookId });
  return { secret: formatSecret(next.secret), previousExpiresAt: rotated.expiresAt };
}

/** Creates a new secret for all callbacks of a client. This is also how a client gets its first one. */
export async function rotateSecretOfCallbacks(c: ExecutionContext, request: { readonly caller: Caller } & Overlap): Promise<RotatedSecret> {
  const next = nextSecret(c, request);
  const { caller } = request;
  const previousExpiresAt = await inTransaction(c.engine.database.api, async (client) => {
    const expiresAt = await rotateCallbackSecret(client, caller.clientId, next);
    await recordActions(client, [actionOf(caller, 'webhook.rotated', { target: 'callbacks' })]);
    return expiresAt;
  });
  logRotation(c, request.caller, { target: 'callbacks' });
  return { secret: formatSecret(next.secret), previousExpiresAt };
}

function nextSecret({ webhooks }: ExecutionContext, { overlap }: Overlap): NextWebhookSecret {
  const issues = new Issues();
  const overlapMs = overlap === undefined ? webhooks.secretOverlapMs : readDuration(overlap, 'overlap', issues);
  if (overlapMs !== null && overlap !== undefined && overlapMs > MAX_OVERLAP_MS) {
    issues.add('overlap', 'OUT_OF_RANGE', 'must be at most 30 days');
  }
  if (overlapMs === null || issues.list.length > 0) throw invalidWebhook(issues.list);
  return { secret: randomBytes(WEBHOOK_SECRET_BYTES), overlapMs };
}

function logRotation({ telemetry }: ExecutionContext, { requestId, clientId }: Caller, target: object): void {
  telemetry.log.info('webhook.secret_rotated', { request_id: requestId, client_id: clientId, ...target });
}
