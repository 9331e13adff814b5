import { isPassing, type Queryable, run, type Statement, statement, translated } from '../driver/statement.ts';
import { RECORD } from './record-events.ts';

// If a statement commits without a flush of the log, other sessions see its rows immediately. The flush follows on the same connection, and the
// caller gets its result after that. A worker that takes such a job in the meantime flushes its claim, and with it everything earlier
// in the log. So a job that passes between two processes waits for one flush instead of two.

/** Whether the commit of a statement flushes the log, or `flushLog` does that afterwards. */
export type Flush = 'flushed' | 'unflushed';

const UNFLUSHED = RECORD.replace(' AS id', ` AS id, set_config('synchronous_commit', 'off', true)`);

/** A statement that writes a record, in both variants. */
export const flushVariants = (name: string, text: string): Record<Flush, Statement> => ({
  flushed: statement(name, text),
  unflushed: statement(`${name}_unflushed`, text.replace(RECORD, UNFLUSHED)),
});

// The transaction must write something, or its commit flushes nothing.
const FLUSH = statement('flush_log', `SELECT pg_logical_emit_message(true, 'millrace', '')`);

/** Returns when everything that was committed on this connection is durable. */
export async function flushLog(db: Queryable): Promise<void> {
  try {
    await run(db, FLUSH, [], { maxTries: 1 });
  } catch (error) {
    throw isPassing(error) ? translated(causeOf(error), { mayHaveHappened: true }) : error;
  }
}

const causeOf = (error: unknown): unknown => (error instanceof Error && error.cause !== undefined ? error.cause : error);
