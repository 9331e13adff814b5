import { AppError } from '../../core/errors.ts';
import { type Queryable, run, statement } from './statement.ts';

const TRANSACTION = statement('current_transaction', 'SELECT pg_current_xact_id()::text AS id');

/** node-postgres has it since version 8.17. `T` means inside a transaction, according to the server's last message. */
type KnowsItsStatus = { getTransactionStatus?(): string | null };

/**
 * Refuses a client that is not inside a transaction. Otherwise each of its statements would commit alone, and the locks and checks of
 * the first would not protect the second.
 */
export async function requireTransaction(client: Queryable): Promise<void> {
  if ((client as KnowsItsStatus).getTransactionStatus?.() === 'T') return;
  // A BEGIN may be in flight, and other clients may not know their status. Two statements of one transaction share its number.
  const [first] = await run<{ id: string }>(client, TRANSACTION);
  const [second] = await run<{ id: string }>(client, TRANSACTION);
  if (first?.id === second?.id) return;
  const message = 'The client is not inside a transaction. Send BEGIN on it first, and COMMIT after the submission.';
  throw new AppError('INVALID_REQUEST', {
    message,
    details: [{ field: 'client', code: 'NOT_IN_TRANSACTION', message }],
  });
}
