import { isUuid } from '../../core/ids.ts';
import { findClient } from '../../ledger/access/clients.ts';
import { foreignClient, noSuchClient } from './client-errors.ts';
import type { Caller, ExecutionContext } from './context.ts';

/** A key speaks for its own client alone. */
export async function requireOwnClient({ engine }: ExecutionContext, caller: Caller, clientId: string): Promise<void> {
  if (caller.clientId === clientId.toLowerCase()) return;
  const client = isUuid(clientId) ? await findClient(engine.database.api, clientId) : null;
  if (client === null) throw noSuchClient(clientId);
  throw foreignClient();
}
