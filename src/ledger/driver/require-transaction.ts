import { type Queryable, run, statement } from './statement.ts';
import { wrongClient } from './user-client.ts';

const TRANSACTION = statement('current_transaction', 'SELECT pg_current_xact_id()::text AS id');

/**
 * node-postgres has it since version 8.17. `T` means inside a transaction, `E` inside one that has failed, according to the server's last
 * message. So the check costs such a client nothing.
 */
type KnowsItsStatus = { getTransactionStatus?(): string | null };

/**
 * Refuses a client that is not inside a transaction. Otherwise each of its statements would commit alone, and the locks and checks of
 * the first would not protect the second.
 */
export async function requireTransaction(client: Queryable): Promise<void> {
  const status = (client as KnowsItsStatus).getTransactionStatus?.();
  if (status === 'T') return;
  if (status === 'E')
    throw wrongClient('TRANSACTION_FAILED', 'The transaction of the client has failed. Send ROLLBACK on it, and begin a new transaction.');
  // A BEGIN may be in flight, and other clients may not know their status. Two statements of one transaction share its number.
  const [first] = await run<{ id: string }>(client, TRANSACTION);
  const [second] = await run<{ id: string }>(client, TRANSACTION);
  if (first?.id === second?.id) return;
  throw wrongClient('NOT_IN_TRANSACTION', 'The client is not inside a transaction. Send BEGIN on it first, and COMMIT after this call.');
}
