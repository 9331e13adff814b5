import type { QueryResult } from 'pg';
import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { AppError, ERRORS, isAppError } from '../../core/errors.ts';

/** One constant SQL text with a name. Every statement of the ledger is made here, so a test can prepare them all. */
export type Statement = {
  readonly name: string;
  readonly text: string;
  /** Whether it leaves anything behind. */
  readonly writes?: boolean;
};

const WRITES = /\b(?:INSERT INTO|UPDATE millrace\.|DELETE FROM)/;

const registry = new Map<string, Statement>();

export function statement(name: string, text: string): Statement {
  if (registry.has(name)) throw new Error(`Two statements are named ${name}.`);
  const made = { name: `millrace_${name}`, text, writes: WRITES.test(text) };
  registry.set(name, made);
  return made;
}

/** A statement whose parameters have names: `$orgId` in its text stands for the member `orgId` of its params. */
export type NamedStatement<Params extends object, Row> = Statement & {
  readonly parameters: readonly (keyof Params & string)[];
  /** Only for the compiler: the type of a row. */
  readonly row?: Row;
};

/** Numbers the parameters in the order in which they first occur, once, so that the text sent to PostgreSQL is constant. */
export function namedStatement<Params extends object, Row>(name: string, text: string): NamedStatement<Params, Row> {
  const parameters: string[] = [];
  const numbered = text.replace(/\$([a-z][A-Za-z]*)/g, (_, parameter: string) => {
    if (!parameters.includes(parameter)) parameters.push(parameter);
    return `$${parameters.indexOf(parameter) + 1}`;
  });
  return { ...statement(name, numbered), parameters: parameters as (keyof Params & string)[] };
}

export function runNamed<Params extends object, Row>(db: Queryable, made: NamedStatement<Params, Row>, params: Params): Promise<Row[]> {
  const values = made.parameters.map((name) => {
    const value = params[name];
    if (value === undefined) throw new TypeError(`${made.name} needs a value for $${name}.`);
    return value;
  });
  return run<Row>(db, made, values);
}

export const allStatements = (): readonly Statement[] => [...registry.values()];

/** Anything that runs a query: a pool or client of ours, or a client with a transaction of the user. */
export type Queryable = {
  query(config: { name?: string; text: string; values?: unknown[] }): Promise<QueryResult>;
  /** It holds no transaction of a caller, so a statement may be repeated on it. */
  readonly isOurs?: true;
  /** Of sessions that see one org: where statements run that concern all orgs. */
  readonly outside?: Queryable;
};

/** What an observer learns about each statement. */
export type StatementObserver = (observation: {
  name: string;
  durationMs: number;
  rows: number;
  /** Null after a failure: the connection failed. */
  failed: boolean;
  sqlState: string | null;
}) => void;

let observer: StatementObserver | null = null;

export function observeStatements(next: StatementObserver | null): void {
  observer = next;
}

const CONTENDED_SQL_STATES = new Set(['40001', '40P01', '55P03']);
export const MAX_TRIES = 3;

/** The pause before a statement that lost a race is tried again. It is random, so that the losers do not meet again. */
export const pauseAfter = (attempt: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, pauseMs(PAUSES.lostRace, attempt, Math.random())));

/**
 * Every statement of the ledger passes here. It is named, timed and, if it lost a race, repeated: up to `maxTries` tries in all.
 */
export async function run<Row>(
  db: Queryable,
  made: Statement,
  values: unknown[] = [],
  { maxTries = MAX_TRIES }: { maxTries?: number } = {},
): Promise<Row[]> {
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
      // Inside a transaction the whole transaction is void. Only its owner can repeat it, and knows a lost race by its SQLSTATE.
      if (!isOurs(db)) throw isContended(error) ? error : translated(error);
      if (!isContended(error) || attempt >= maxTries)
        throw translated(error, { mayHaveHappened: made.writes === true && isUnanswered(error) });
      await pauseAfter(attempt);
    }
  }
}

/** Whether each statement is a transaction. */
export const isOurs = (db: Queryable): boolean => 'totalCount' in db || db.isOurs === true;

export function sqlStateOf(error: unknown): string | null {
  if (isAppError(error, 'UNAVAILABLE') || isAppError(error, 'DATABASE_DISK_FULL')) return sqlStateOf(error.cause);
  const code = (error as { code?: unknown } | null)?.code;
  // EPIPE has the form of an SQLSTATE.
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !CONNECTION_CODES.has(code) ? code : null;
}

const CUT_CODES = ['ECONNRESET', 'EPIPE', 'ETIMEDOUT'];
const CONNECTION_CODES = new Set([...CUT_CODES, 'ECONNREFUSED', 'ENOTFOUND', 'EHOSTUNREACH', 'EAI_AGAIN']);

/** An error that says that the database is away or held up becomes an `AppError`; any other error is returned as it is. */
export function translated(error: unknown, { mayHaveHappened = false } = {}): unknown {
  if (isAppError(error) || !isPassing(error)) return error;
  if (isDiskFull(error)) return reportDiskFull(error, mayHaveHappened);
  const facts = { retryAfterMs: 1_000, mayHaveHappened, cause: error };
  if (mayHaveHappened) {
    const message = 'The connection to the database was lost before a response arrived. The operation may have happened.';
    return new AppError('UNAVAILABLE', { message, ...facts });
  }
  const message = isContended(error) ? 'Another transaction holds a lock that this needs.' : 'The database does not respond.';
  return new AppError('UNAVAILABLE', { message, ...facts });
}

let diskFullAtMs = Number.NEGATIVE_INFINITY;
const diskFullListeners = new Set<(error: AppError) => void>();

/** Calls the listener for each statement of this process that failed because the disk is full. Returns a function that removes it. */
export function onDiskFull(listener: (error: AppError) => void): () => void {
  diskFullListeners.add(listener);
  return () => diskFullListeners.delete(listener);
}

/** How long ago a statement of this process last failed because the disk is full; infinite if the disk had room since. */
export const msSinceDiskFull = (): number => performance.now() - diskFullAtMs;

export function forgetDiskFull(): void {
  diskFullAtMs = Number.NEGATIVE_INFINITY;
}

/** Somebody must make room, so callers are asked to wait longer than for other failures. */
const ROOM_AFTER_MS = 5_000;

function reportDiskFull(cause: unknown, mayHaveHappened: boolean): AppError {
  diskFullAtMs = performance.now();
  const effect = mayHaveHappened ? 'The operation may have happened.' : `Nothing was changed. ${ERRORS.DATABASE_DISK_FULL.remedy}`;
  const message = `The disk of the database is full. ${effect}`;
  const error = new AppError('DATABASE_DISK_FULL', { message, retryAfterMs: ROOM_AFTER_MS, mayHaveHappened, cause });
  for (const listener of diskFullListeners) listener(error);
  return error;
}

/** The disk with the data or with the log of the database is full. A write may succeed once there is room. */
export function isDiskFull(error: unknown): boolean {
  if (isAppError(error)) return error.code === 'DATABASE_DISK_FULL';
  const sqlState = sqlStateOf(error);
  return sqlState === '53100' || (sqlState === '58030' && /No space left|quota exceeded/i.test((error as Error).message));
}

/** The statement may succeed a moment later: the database is away, or another transaction was in the way. */
export const isPassing = (error: unknown): boolean => isUnavailable(error) || isContended(error);

/** Another transaction was in the way, and this one was rolled back. */
export const isContended = (error: unknown): boolean => CONTENDED_SQL_STATES.has(sqlStateOf(error) ?? '');

/** Another transaction held a lock for longer than this one waits. */
export const isLockedOut = (error: unknown): boolean => sqlStateOf(error) === '55P03';

/** The statement exceeded its timeout. A smaller one may succeed. */
export function isOverlong(error: unknown): boolean {
  if (isAppError(error, 'UNAVAILABLE')) return isOverlong(error.cause);
  return sqlStateOf(error) === '57014' || (error instanceof Error && /Query read timeout/i.test(error.message));
}

/** The statement was sent, and its outcome is unknown. */
export function isUnanswered(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  // After a panic, such as one of the log, the server restarts and decides from its log what had happened.
  if (sqlState !== null) return /^(?:08|57P0[1245])/.test(sqlState) || (error as { severity?: unknown }).severity === 'PANIC';
  const { code, message = '' } = (error ?? {}) as { code?: unknown; message?: string };
  return CUT_CODES.includes(String(code)) || /Connection terminated|Query read timeout/i.test(message);
}

/** The database is away, full, shutting down or read-only. The request itself is fine and can be repeated later. */
export function isUnavailable(error: unknown): boolean {
  if (isDiskFull(error)) return true;
  if (isAppError(error)) return error.code === 'UNAVAILABLE' && !isContended(error);
  const sqlState = sqlStateOf(error);
  if (sqlState !== null) return /^(08|53|57P|57014|25006|25P03)/.test(sqlState);
  const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown };
  // The socket of a server that stopped is gone (ENOENT).
  if (syscall === 'connect' || (typeof code === 'string' && CONNECTION_CODES.has(code))) return true;
  const message = error instanceof Error ? error.message : '';
  return /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|connection timeout|Query read timeout/i.test(
    message,
  );
}
