import { randomBytes, randomUUID } from 'node:crypto';
import type { AppError } from '../../core/errors.ts';
import { Issues } from '../../core/issues.ts';
import { maskSecrets } from '../../core/mask-secrets.ts';
import { addUrlRefusal } from '../../core/submission-fields.ts';
import type { UrlGuard } from '../../core/target-url.ts';
import { checkWebhook, checkWebhookUpdate, type WebhookSubmission, type WebhookUpdate } from '../../core/webhook-request.ts';
import { formatSecret, WEBHOOK_SECRET_BYTES } from '../../core/webhook-signature.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { readClock } from '../../ledger/driver/clock.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { changeWebhook as changeInLedger, deleteWebhook as deleteInLedger } from '../../ledger/webhooks/change-webhook.ts';
import { insertWebhook } from '../../ledger/webhooks/webhooks.ts';
import { actionOf, type Caller, type ExecutionContext } from '../execution/context.ts';
import { createOnce, findRepeat } from '../execution/create-once.ts';
import { invalidWebhook, noSuchWebhook, readWebhook, type Webhook, type WebhookRequest, webhookConflict } from './read-webhook.ts';

const MAX_WEBHOOKS = 100;

export type RegisterWebhookRequest = {
  readonly caller: Caller;
  readonly webhook: WebhookSubmission;
  readonly idempotencyKey?: string;
};

export type RegisteredWebhook = {
  readonly webhookId: string;
  readonly createdAt: Date;
  /** Shown once; null in the reply to a repeat. */
  readonly secret: string | null;
};

/** Sends the named events to the URL from now on. A repeat with the same idempotency key returns the first webhook. */
export async function registerWebhook(
  c: ExecutionContext,
  { caller, webhook: given, idempotencyKey: key }: RegisterWebhookRequest,
): Promise<RegisteredWebhook> {
  const { clientId, requestId } = caller;
  const { database } = c.engine;
  const checked = checkWebhook(given, c.webhooks.addresses);
  if (!checked.ok) throw invalidWebhook(checked.issues);
  const { webhook: request } = checked;
  const scope = `webhooks:${clientId}`;
  const repeat = await findRepeat(database, { scope, key, request });
  if (repeat !== null) return repeated(repeat);
  await requireCallableUrl(c.webhooks.guard, request.url);
  const webhookId = randomUUID();
  const secret = randomBytes(WEBHOOK_SECRET_BYTES);
  const createdAt = await readClock(database.api);
  const row = { ...request, id: webhookId, secret, createdAt, atMost: MAX_WEBHOOKS };
  const insert = async (db: Queryable) => {
    const result = await insertWebhook(db, clientId, row);
    if (result === 'exists') throw registeredTwice();
    if (result === 'too_many') {
      throw webhookConflict(`A client has at most ${MAX_WEBHOOKS} webhooks: delete one that is no longer needed.`);
    }
    await recordActions(db, [actionOf(caller, 'webhook.created', { webhook_id: webhookId, url: maskSecrets(request.url) })]);
  };
  const created = await createOnce(database, {
    scope,
    key,
    request,
    reply: { webhookId, createdAt: createdAt.toISOString() },
    create: insert,
  });
  if (created.kind === 'repeated') return repeated(created.reply);
  c.telemetry.log.info('webhook.registered', { request_id: requestId, client_id: clientId, webhook_id: webhookId });
  return { webhookId, createdAt, secret: formatSecret(secret) };
}

const repeated = ({ webhookId, createdAt }: Record<string, unknown>): RegisteredWebhook => ({
  webhookId: webhookId as string,
  createdAt: new Date(createdAt as string),
  secret: null,
});

/** Changes a webhook. Enabling it or changing its URL resets its failures and sends the events that wait for it. */
export async function changeWebhook(
  c: ExecutionContext,
  { update, ...request }: WebhookRequest & { readonly update: WebhookUpdate },
): Promise<Webhook> {
  const checked = checkWebhookUpdate(update, c.webhooks.addresses);
  if (!checked.ok) throw invalidWebhook(checked.issues);
  const { webhook: change } = checked;
  const { kind, id: webhookId } = await readWebhook(c, request);
  const fixed = Object.keys(change).find((member) => member !== 'enabled');
  if (kind === 'callback' && fixed !== undefined) {
    throw webhookConflict(`A callback takes its ${fixed} from the jobs that name it: only enabled can be changed.`);
  }
  if (change.url !== undefined) await requireCallableUrl(c.webhooks.guard, change.url);
  await inTransaction(
    c.engine.database.api,
    async (client) => {
      const result = await changeInLedger(client, request.caller.clientId, { webhookId, change });
      if (result === 'exists') throw registeredTwice();
      const members = Object.keys(change);
      await recordActions(client, [actionOf(request.caller, 'webhook.changed', { webhook_id: webhookId, members })]);
    },
    { mayRepeat: true },
  );
  c.webhooks.onQueued();
  return readWebhook(c, request);
}

/** Discards the events that wait for the webhook. A call in flight is the last one. */
export async function deleteWebhook(c: ExecutionContext, request: WebhookRequest): Promise<{ deleted: true }> {
  const { kind, id } = await readWebhook(c, request);
  if (kind === 'callback') {
    throw webhookConflict('A callback cannot be deleted because jobs name it: disable it with PATCH and {"enabled": false}.');
  }
  const { requestId, clientId } = request.caller;
  const isDeleted = await inTransaction(
    c.engine.database.api,
    async (client) => {
      const done = await deleteInLedger(client, clientId, id);
      if (done) await recordActions(client, [actionOf(request.caller, 'webhook.deleted', { webhook_id: id })]);
      return done;
    },
    { mayRepeat: true },
  );
  if (!isDeleted) throw noSuchWebhook(id);
  c.telemetry.log.info('webhook.deleted', { request_id: requestId, client_id: clientId, webhook_id: id });
  return { deleted: true };
}

const registeredTwice = (): AppError => webhookConflict('Another webhook already sends these events to this URL.');

/** Refuses a URL whose host resolves to an address that may not be called. A host that does not resolve yet is accepted. */
async function requireCallableUrl(guard: UrlGuard, url: string): Promise<void> {
  const refusal = await guard.check(url);
  if (refusal === null) return;
  const issues = new Issues();
  addUrlRefusal('url', refusal, issues);
  throw invalidWebhook(issues.list);
}
