import { randomUUID } from 'node:crypto';
import { findClient, createClient as insertClient } from '../../ledger/access/clients.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { type KeyView, listKeys } from '../access/list-keys.ts';
import { noSuchClient, requireRegistration } from './client-checks.ts';
import type { Caller, ExecutionContext } from './context.ts';
import { createOnce } from './create-once.ts';

export type CreateClientRequest = {
  /** The address of the sender. Its idempotency keys are separate from those of other addresses. */
  readonly address: string;
  readonly idempotencyKey?: string;
  readonly bootstrapToken?: string;
};

/** Creates a client, which can then fetch its first key. A repeat with the same idempotency key returns the first client. */
export async function createClient(
  { engine, settings }: ExecutionContext,
  { address, idempotencyKey, bootstrapToken }: CreateClientRequest,
): Promise<{ clientId: string }> {
  requireRegistration(settings, bootstrapToken);
  const clientId = randomUUID();
  const made = await createOnce(engine.database, {
    scope: `clients:${address}`,
    key: idempotencyKey,
    request: {},
    reply: { clientId },
    async create(db) {
      await insertClient(db, clientId);
      const requester = { actor: 'system:registration', requestId: null };
      await recordActions(db, [{ orgId: clientId, event: 'org.created', requester, details: { address } }]);
    },
  });
  if (made.kind === 'created') return { clientId };
  const first = made.reply.clientId as string;
  if ((await findClient(engine.database.api, first)) === null) throw noSuchClient(first);
  return { clientId: first };
}

export type ClientView = {
  readonly clientId: string;
  readonly createdAt: Date;
  readonly keys: readonly KeyView[];
  readonly limits: {
    /** Null where the limit of the server applies. */
    readonly requestsPerMinute: number | null;
    /** Requests in a UTC day; null means no limit. */
    readonly quota: number | null;
    readonly queueSize: number;
    readonly activeJobs: number;
    readonly payloadBytes: number;
    readonly maxRuntimeMs: number;
  };
};

/** The caller's client, its keys without secrets, and its limits. A caller of one project sees the keys of that project. */
export async function readClient(
  { engine, settings }: ExecutionContext,
  { caller: { clientId, projectId } }: { readonly caller: Caller },
): Promise<ClientView> {
  const [client, keys] = await Promise.all([
    findClient(engine.database.reads.of(clientId), clientId),
    listKeys(engine.database, { orgId: clientId, projectId }),
  ]);
  if (client === null) throw noSuchClient(clientId);
  const { quota, queueSize, activeJobs, payloadBytes, maxRuntimeMs } = settings;
  const { createdAt, requestsPerMinute } = client;
  const daily = quota === 0 ? null : quota;
  const limits = { requestsPerMinute, quota: daily, queueSize, activeJobs, payloadBytes, maxRuntimeMs };
  return { clientId, createdAt, keys, limits };
}
