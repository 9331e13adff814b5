import type { QueryResult } from 'pg';
import { AppError, isAppError } from '../core/errors.ts';

/** One constant SQL text with a name. Every statement of the ledger is made here, so a test can prepare them all. */
export type Statement = { readonly name: string; readonly text: string };

const registry = new Map<string, Statement>();

export function statement(name: string, text: string): Statement {
  if (registry.has(name)) throw new Error(`Two statements are named ${name}.`);
  const made = { name: `millrace_${name}`, text };
  registry.set(name, made);
  return made;
}

export const allStatements = (): readonly Statement[] => [...registry.values()];

/** Anything that runs a query: a pool of ours, a client of ours, or a client of the user's own transaction. */
export type Queryable = {
  query(config: { name?: string; text: string; values?: unknown[] }): Promise<QueryResult>;
  /** Holds no transaction of anybody else's, so a statement may be repeated on it. */
  readonly isOurs?: true;
};

/** What the gate tells about each statement that passed it. */
export type StatementObserver = (observation: {
  name: string;
  durationMs: number;
  rows: number;
  /** A failure without a state is one of the connection. */
  failed: boolean;
  sqlState: string | null;
}) => void;

let observer: StatementObserver | null = null;

export function observeStatements(next: StatementObserver | null): void {
  observer = next;
}

const RETRIED_SQL_STATES = new Set(['40001', '40P01', '55P03']);
const MAX_TRIES = 3;

/** The one gate between the program and PostgreSQL: names, times and, for lost races, repeats a statement. */
export async function run<Row>(db: Queryable, made: Statement, values: unknown[] = []): Promise<Row[]> {
  for (let attempt = 1; ; attempt++) {
    const startedAt = observer === null ? 0 : performance.now();
    try {
      const result = await db.query({ name: made.name, text: made.text, values });
      observer?.({
        name: made.name,
        durationMs: performance.now() - startedAt,
        rows: result.rows.length,
        failed: false,
        sqlState: null,
      });
      return result.rows as Row[];
    } catch (error) {
      const sqlState = sqlStateOf(error);
      observer?.({ name: made.name, durationMs: performance.now() - startedAt, rows: 0, failed: true, sqlState });
      // Inside a user's transaction the whole transaction is void, so only a connection of ours may try again.
      if (sqlState === null || !RETRIED_SQL_STATES.has(sqlState) || attempt >= MAX_TRIES || !isOurs(db))
        throw translated(error);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20 * 2 ** attempt));
    }
  }
}

const isOurs = (db: Queryable): boolean => 'totalCount' in db || db.isOurs === true;

export function sqlStateOf(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  // EPIPE looks like one and is none.
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !CONNECTION_CODES.has(code) ? code : null;
}

const CONNECTION_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'EAI_AGAIN',
]);

/** The database being away is an answer of the catalogue; anything else passes as it is. */
export function translated(error: unknown): unknown {
  if (isAppError(error) || !isUnavailable(error)) return error;
  return new AppError('UNAVAILABLE', { message: 'The database does not answer.', retryAfterMs: 1_000, cause: error });
}

/** The same may well succeed a moment later: the database is away, or another transaction was in the way. */
export function isPassing(error: unknown): boolean {
  return isUnavailable(error) || RETRIED_SQL_STATES.has(sqlStateOf(error) ?? '');
}

/** The database is away, full, shutting down or read-only: nothing is wrong with the request, try again later. */
export function isUnavailable(error: unknown): boolean {
  if (isAppError(error)) return error.code === 'UNAVAILABLE';
  const sqlState = sqlStateOf(error);
  if (sqlState !== null) return /^(08|53|57P|57014|25006|25P03)/.test(sqlState);
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === 'string' && CONNECTION_CODES.has(code)) return true;
  const message = error instanceof Error ? error.message : '';
  return /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|connection timeout|Query read timeout/i.test(
    message,
  );
}
