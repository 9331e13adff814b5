import type { QueryResult } from 'pg';
import { type AppError, invalidRequest } from '../../core/errors.ts';
import { arrayText, literalOf } from './array-text.ts';
import type { Queryable } from './statement.ts';

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
      const arrays = arrayParameters(text);
      const plain = values.map((value, index) => plainValue(value, arrays.has(index + 1)));
      const result = await client.query(text, plain);
      if (Array.isArray(result?.rows)) return result as unknown as QueryResult;
      throw wrongClient('INVALID_TYPE', 'client.query must return a promise of { rows }, where rows is a list of objects.');
    },
  };
}

/** The numbers of the parameters that are arrays. Statements are constant texts, so each is read once. */
function arrayParameters(text: string): ReadonlySet<number> {
  const known = parametersByText.get(text);
  if (known !== undefined) return known;
  const found = new Set([...text.matchAll(/\$(\d+)::[\w.]+\[\]/g)].map(([, number]) => Number(number)));
  parametersByText.set(text, found);
  return found;
}

const parametersByText = new Map<string, ReadonlySet<number>>();

function plainValue(value: unknown, isArray: boolean): unknown {
  if (value instanceof Uint8Array) return isArray ? arrayText(Buffer.from(value.buffer, value.byteOffset, value.length)) : hexOf(value);
  if (Array.isArray(value)) return literalOf(value.map((each) => (each === null ? null : String(each))));
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
}

const hexOf = (bytes: Uint8Array): string => `\\x${Buffer.from(bytes).toString('hex')}`;
