import { randomBytes, randomUUID } from 'node:crypto';
import { type CheckedWebhook, checkWebhook, type WebhookSubmission } from '../../core/webhook-request.ts';
import { formatSecret, WEBHOOK_SECRET_BYTES } from '../../core/webhook-signature.ts';
import { readClock } from '../../ledger/driver/clock.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { insertWebhook, type NewWebhook } from '../../ledger/webhooks/webhooks.ts';
import type { Caller, ExecutionContext } from '../execution/context.ts';
import { type Created, createOnce, findRepeat } from '../execution/create-once.ts';
import { requireReachableUrl } from './check-url.ts';
import { invalidWebhook, registeredTwice, webhookConflict } from './webhook-errors.ts';

export type RegisterWebhookParams = { readonly webhook: WebhookSubmission; readonly idempotencyKey?: string };

export type RegisteredWebhook = {
  readonly webhookId: string;
  readonly createdAt: Date;
  /** Shown this once; null in the answer to a repeat. */
  readonly secret: string | null;
};

const MAX_WEBHOOKS = 100;

/** From now on the events named are sent to the URL. A repeat with the same key answers with the first one's webhook. */
export async function registerWebhook(
  c: ExecutionContext,
  caller: Caller,
  { webhook: given, idempotencyKey: key }: RegisterWebhookParams,
): Promise<RegisteredWebhook> {
  const checked = checkWebhook(given, c.webhooks.addresses);
  if (!checked.ok) throw invalidWebhook(checked.issues);
  const { webhook } = checked;
  const asked = { scope: `webhooks:${caller.clientId}`, key, request: webhook };
  const repeat = await findRepeat(c.engine.database, asked);
  if (repeat !== null) return repeated(repeat);
  await requireReachableUrl(c.webhooks.guard, webhook.url);
  const made = await newWebhook(c, webhook);
  const { id, createdAt, secret } = made;
  const created = await createIt(c, { ...asked, clientId: caller.clientId, made });
  if (created.kind === 'repeated') return repeated(created.reply);
  const { requestId, clientId } = caller;
  c.telemetry.log.info('webhook.registered', { request_id: requestId, client_id: clientId, webhook_id: id });
  return { webhookId: id, createdAt, secret: formatSecret(secret) };
}

async function newWebhook({ engine }: ExecutionContext, webhook: CheckedWebhook): Promise<NewWebhook> {
  return {
    ...webhook,
    id: randomUUID(),
    secret: randomBytes(WEBHOOK_SECRET_BYTES),
    createdAt: await readClock(engine.database.api),
    atMost: MAX_WEBHOOKS,
  };
}

type Creating = {
  scope: string;
  key: string | undefined;
  request: CheckedWebhook;
  clientId: string;
  made: NewWebhook;
};

function createIt({ engine }: ExecutionContext, creating: Creating): Promise<Created<void>> {
  const { scope, key, request, clientId, made } = creating;
  const create = (db: Queryable) => insert(db, clientId, made);
  const { database } = engine;
  return createOnce(database, {
    ...{ scope, key, request },
    reply: { webhookId: made.id, createdAt: made.createdAt.toISOString() },
    create: (db) => (key === undefined ? inTransaction(database.api, create, { mayRepeat: true }) : create(db)),
  });
}

/** What throws here takes with it what was written before. */
async function insert(db: Queryable, clientId: string, made: NewWebhook): Promise<void> {
  const result = await insertWebhook(db, clientId, made);
  if (result === 'exists') throw registeredTwice();
  if (result === 'too_many') {
    throw webhookConflict(`A client has at most ${MAX_WEBHOOKS} webhooks: delete one that is no longer needed.`);
  }
}

const repeated = ({ webhookId, createdAt }: Record<string, unknown>): RegisteredWebhook => ({
  webhookId: webhookId as string,
  createdAt: new Date(createdAt as string),
  secret: null,
});
