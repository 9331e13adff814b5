import type { QueryResult } from 'pg';
import { type AppError, invalidRequest } from '../../core/errors.ts';
import { arrayText, literalOf } from './array-text.ts';
import { type Queryable, sqlStateOf } from './statement.ts';

/**
 * A client that is inside a transaction of yours: a client of `pg`, or any object that sends a statement with parameters on the connection
 * of the transaction. The parameters of other clients than those of `pg` are strings, numbers, booleans and null.
 */
export type UserClient = {
  /** Sends a statement on the connection of the transaction. */
  query(text: string, values?: unknown[]): PromiseLike<{ rows: unknown[] }>;
};

/** Members that node-postgres has: its clients since version 8.17, and its pools. */
type NodePostgres = { getTransactionStatus?: unknown; totalCount?: unknown };

const clients = new WeakMap<UserClient, Queryable>();

/** Prepares the client of a caller for statements of the ledger. Refuses a pool, whose statements go to any of its connections. */
export function toQueryable(client: UserClient): Queryable {
  const { getTransactionStatus, totalCount } = (client ?? {}) as NodePostgres;
  if (totalCount !== undefined)
    throw wrongClient(
      'IS_A_POOL',
      'client is a pool, which sends each statement on any connection. Take a client with pool.connect(), send BEGIN on it, and pass that client.',
    );
  if (typeof client?.query !== 'function')
    throw wrongClient(
      'INVALID_TYPE',
      'client must be a client of pg, or an object with a method query(text, values) that returns { rows }.',
    );
  // A client of pg sends binary arrays and named statements, which is faster.
  if (typeof getTransactionStatus === 'function') return client as unknown as Queryable;
  const known = clients.get(client) ?? plainClient(client);
  clients.set(client, known);
  return known;
}

export const wrongClient = (code: string, message: string): AppError => invalidRequest({ field: 'client', code, message });

function plainClient(client: UserClient): Queryable {
  return {
    async query({ text, values = [] }) {
      const plain = plainText(text);
      const result = await sent(
        client,
        plain.text,
        values.map((value, index) => plainValue(value, plain.casts.get(index + 1))),
      );
      if (Array.isArray(result?.rows)) return result as unknown as QueryResult;
      throw wrongClient('INVALID_TYPE', 'client.query must return a promise of { rows }, where rows is a list of objects.');
    },
  };
}

/** Some libraries wrap the errors of the database. The ledger needs their SQLSTATE. */
async function sent(client: UserClient, text: string, values: unknown[]): Promise<{ rows: unknown[] }> {
  try {
    return await client.query(text, values);
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined;
    throw sqlStateOf(error) === null && sqlStateOf(cause) !== null ? cause : error;
  }
}

type PlainText = { readonly text: string; readonly casts: ReadonlyMap<number, string> };

const PARAMETER = /\$(\d+)(?:::([\w.]+(?:\[\])?))?/g;

/**
 * Makes PostgreSQL read each parameter as text and cast it: `$1::text::uuid[]`. A library that learns the type of a parameter from the
 * server would otherwise write the value in its own way, and a second time. Statements are constant texts, so each is read once.
 */
export function plainText(text: string): PlainText {
  const known = plainTexts.get(text);
  if (known !== undefined) return known;
  const casts = new Map<number, string>();
  for (const [, number, type] of text.matchAll(PARAMETER))
    if (type !== undefined && !casts.has(Number(number))) casts.set(Number(number), type);
  const plain = text.replace(PARAMETER, (whole, number, type = casts.get(Number(number))) =>
    type === undefined || type === 'text' ? whole : `$${number}::text::${type}`,
  );
  const made = { text: plain, casts };
  plainTexts.set(text, made);
  return made;
}

const plainTexts = new Map<string, PlainText>();

function plainValue(value: unknown, cast: string | undefined): unknown {
  if (value === null || value === undefined) return null;
  if (value instanceof Uint8Array)
    return cast?.endsWith('[]') ? arrayText(Buffer.from(value.buffer, value.byteOffset, value.length)) : hexOf(value);
  if (Array.isArray(value)) return literalOf(value.map((each) => (each === null ? null : String(each))));
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'object') return JSON.stringify(value);
  return cast === undefined ? value : String(value);
}

const hexOf = (bytes: Uint8Array): string => `\\x${Buffer.from(bytes).toString('hex')}`;
