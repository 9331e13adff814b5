import { isPassing, type Queryable, run, type Statement, statement, translated } from '../driver/statement.ts';
import { RECORD } from './record-events.ts';

// A statement that commits without a flush of the log is seen by others at once. The flush follows on the same connection, and the caller has its
// answer when that is done. A worker that takes such a job meanwhile flushes its claim, and with that everything before it in the log. So a job
// between two processes waits for one flush instead of two.

/** Whether the commit of a statement flushes the log, or `flushLog` does that afterwards. */
export type Flush = 'flushed' | 'unflushed';

const UNFLUSHED = RECORD.replace(' AS id', ` AS id, set_config('synchronous_commit', 'off', true)`);

/** A statement that writes a record, in both ways. */
export const flushVariants = (name: string, text: string): Record<Flush, Statement> => ({
  flushed: statement(name, text),
  unflushed: statement(`${name}_unflushed`, text.replace(RECORD, UNFLUSHED)),
});

// Something must be written, or the commit flushes nothing.
const FLUSH = statement('flush_log', `SELECT pg_logical_emit_message(true, 'millrace', '')`);

/** Returns when everything that was committed on this connection is as durable as the server makes it. */
export async function flushLog(db: Queryable): Promise<void> {
  try {
    await run(db, FLUSH, [], { maxTries: 1 });
  } catch (error) {
    throw isPassing(error) ? translated(causeOf(error), { mayHaveHappened: true }) : error;
  }
}

const causeOf = (error: unknown): unknown =>
  error instanceof Error && error.cause !== undefined ? error.cause : error;
