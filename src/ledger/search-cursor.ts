import { AppError } from '../core/errors.ts';

export const SEARCH_ORDERS = ['CREATED_DESC', 'CREATED_ASC', 'UPDATED_DESC'] as const;

export type SearchOrder = (typeof SEARCH_ORDERS)[number];

/** Where a page ended. Only the order by time of change needs the time; in microseconds, as the database keeps it. */
export type SearchPosition = { seq: number; updatedAtUs: number | null };

const VERSION = 1;

export function writeCursor(order: SearchOrder, { seq, updatedAtUs }: SearchPosition): string {
  return Buffer.from(JSON.stringify([VERSION, order, seq, updatedAtUs])).toString('base64url');
}

/** A cursor is good only for the order it was made in. */
export function readCursor(order: SearchOrder, cursor: string): SearchPosition {
  const [version, madeFor, seq, updatedAtUs] = decode(cursor);
  const hasTime = order === 'UPDATED_DESC' ? Number.isSafeInteger(updatedAtUs) : updatedAtUs === null;
  if (version !== VERSION || madeFor !== order || !Number.isSafeInteger(seq) || !hasTime) throw invalidCursor();
  return { seq: seq as number, updatedAtUs: updatedAtUs as number | null };
}

function decode(cursor: string): unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    if (Array.isArray(value) && value.length === 4) return value;
  } catch {
    // Falls through to the one answer for every broken cursor.
  }
  throw invalidCursor();
}

function invalidCursor(): AppError {
  const message = 'cursor must be the nextCursor of a page in the same order';
  return new AppError('INVALID_REQUEST', { message, details: [{ field: 'cursor', code: 'INVALID_CURSOR', message }] });
}
