import { randomUUID } from 'node:crypto';
import { findClient, createClient as insertClient } from '../../ledger/access/clients.ts';
import { noSuchClient } from './client-errors.ts';
import type { ExecutionContext } from './context.ts';
import { createOnce } from './create-once.ts';
import { requireRegistration } from './require-registration.ts';

export type CreateClientParams = {
  /** Where the call comes from: nobody else can meet its idempotency keys. */
  address: string;
  idempotencyKey?: string;
  bootstrapToken?: string;
};

export type CreatedClient = { readonly clientId: string; readonly createdAt: Date };

/** Makes a client, which may then fetch its first key. A repeat with the same key answers with the first one's client. */
export async function createClient(
  { engine, settings }: ExecutionContext,
  { address, idempotencyKey, bootstrapToken }: CreateClientParams,
): Promise<CreatedClient> {
  requireRegistration(settings, bootstrapToken);
  const newId = randomUUID();
  const made = await createOnce(engine.database, {
    scope: `clients:${address}`,
    key: idempotencyKey,
    request: {},
    reply: { clientId: newId },
    create: (db) => insertClient(db, newId),
  });
  if (made.kind === 'created') return { clientId: newId, createdAt: made.value.createdAt };
  const clientId = made.reply.clientId as string;
  const client = await findClient(engine.database.api, clientId);
  if (client === null) throw noSuchClient(clientId);
  return { clientId, createdAt: client.createdAt };
}
