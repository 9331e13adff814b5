import { randomBytes } from 'node:crypto';
import type { DurationInput } from '../../core/duration.ts';
import { isUuid } from '../../core/ids.ts';
import { Issues, readDuration } from '../../core/submission-fields.ts';
import { formatSecret, WEBHOOK_SECRET_BYTES } from '../../core/webhook-signature.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { lockLane } from '../../ledger/webhooks/change-webhook.ts';
import {
  type NextWebhookSecret,
  rotateCallbackSecret,
  rotateWebhookSecret,
} from '../../ledger/webhooks/webhook-secrets.ts';
import type { Caller, ExecutionContext } from '../execution/context.ts';
import { readWebhook, refuseAbsent } from './read-webhook.ts';
import { invalidWebhook, webhookConflict } from './webhook-errors.ts';

/** How long the secret before still counts; as configured unless given. */
export type RotateParams = { readonly overlap?: DurationInput };

export type RotatedSecret = { readonly secret: string; readonly previousExpiresAt: Date | null };

const MAX_OVERLAP_MS = 30 * 86_400_000;

/** A new secret for a webhook. Until the old one ends, messages carry a signature of each. */
export async function rotateSecret(
  c: ExecutionContext,
  caller: Caller,
  { id, ...params }: RotateParams & { readonly id: string },
): Promise<RotatedSecret> {
  const next = nextSecret(c, params);
  if (!isUuid(id)) return refuseAbsent(c, caller, id);
  const { kind } = await readWebhook(c, caller, id);
  if (kind === 'callback') {
    throw webhookConflict('All callbacks of a client share one secret: use POST /v1/webhooks/callbacks/secret.');
  }
  const rotated = await inTransaction(
    c.engine.database.api,
    async (client) => {
      if (!(await lockLane(client, caller.clientId, id))) return null;
      return { expiresAt: await rotateWebhookSecret(client, caller.clientId, { webhookId: id, ...next }) };
    },
    { mayRepeat: true },
  );
  if (rotated === null) return refuseAbsent(c, caller, id);
  logRotation(c, caller, { webhook_id: id });
  return { secret: formatSecret(next.secret), previousExpiresAt: rotated.expiresAt };
}

/** A new secret for all callbacks of a client, which is also how it learns of its first. */
export async function rotateClientCallbackSecret(
  c: ExecutionContext,
  caller: Caller,
  params: RotateParams,
): Promise<RotatedSecret> {
  const next = nextSecret(c, params);
  const previousExpiresAt = await rotateCallbackSecret(c.engine.database.api, caller.clientId, next);
  logRotation(c, caller, { target: 'callbacks' });
  return { secret: formatSecret(next.secret), previousExpiresAt };
}

function nextSecret({ webhooks }: ExecutionContext, { overlap }: RotateParams): NextWebhookSecret {
  const issues = new Issues();
  const overlapMs = overlap === undefined ? webhooks.secretOverlapMs : readDuration(overlap, 'overlap', issues);
  if (overlapMs !== null && overlap !== undefined && overlapMs > MAX_OVERLAP_MS) {
    issues.add('overlap', 'OUT_OF_RANGE', 'must be at most 30 days');
  }
  if (overlapMs === null || issues.list.length > 0) throw invalidWebhook(issues.list);
  return { secret: randomBytes(WEBHOOK_SECRET_BYTES), overlapMs };
}

function logRotation({ telemetry }: ExecutionContext, { requestId, clientId }: Caller, what: object): void {
  telemetry.log.info('webhook.secret_rotated', { request_id: requestId, client_id: clientId, ...what });
}
