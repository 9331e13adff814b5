import type { AppError } from '../../core/errors.ts';
import { type Queryable, run, sqlStateOf, statement } from './statement.ts';
import { wrongClient } from './user-client.ts';

const TRANSACTION = statement('current_transaction', 'SELECT pg_current_xact_id()::text AS id');

/**
 * node-postgres has it since version 8.17. `T` means inside a transaction, `E` inside one that has failed, according to the server's last
 * message. So the check costs such a client nothing.
 */
type KnowsItsStatus = {
  getTransactionStatus?(): string | null;
  /** False while a statement is under way. Its caller may already have its error, and the status is still the one before it. */
  readyForQuery?: boolean;
};

const IN_FAILED_TRANSACTION = '25P02';

/**
 * Refuses a client that is not inside a transaction. Otherwise each of its statements would commit alone, and the locks and checks of
 * the first would not protect the second.
 */
export async function requireTransaction(client: Queryable): Promise<void> {
  const { readyForQuery = true } = client as KnowsItsStatus;
  const status = readyForQuery ? (client as KnowsItsStatus).getTransactionStatus?.() : null;
  if (status === 'T') return;
  if (status === 'E') throw transactionFailed();
  // A BEGIN may be in flight, and other clients may not know their status. Two statements of one transaction share its number.
  const first = await currentTransaction(client);
  if (first === (await currentTransaction(client))) return;
  throw wrongClient('NOT_IN_TRANSACTION', 'The client is not inside a transaction. Send BEGIN on it first, and COMMIT after this call.');
}

async function currentTransaction(client: Queryable): Promise<string | undefined> {
  const [row] = await run<{ id: string }>(client, TRANSACTION).catch((error) => {
    throw sqlStateOf(error) === IN_FAILED_TRANSACTION ? transactionFailed() : error;
  });
  return row?.id;
}

const transactionFailed = (): AppError =>
  wrongClient('TRANSACTION_FAILED', 'The transaction of the client has failed. Send ROLLBACK on it, and begin a new transaction.');
