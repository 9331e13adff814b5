import { type CursorScope, invalidCursor, readPageCursor, writePageCursor } from '../driver/page-cursor.ts';
import type { Seal } from '../driver/seal.ts';

export const SEARCH_ORDERS = ['CREATED_DESC', 'CREATED_ASC', 'UPDATED_DESC'] as const;

export type SearchOrder = (typeof SEARCH_ORDERS)[number];

/** Where a page ended. Only the order by time of change has a time. It is in microseconds, like the times of the database. */
export type SearchPosition = { seq: number; updatedAtUs: number | null };

export type SearchScope = Omit<CursorScope, 'list'> & { readonly order: SearchOrder };

export function writeCursor(seal: Seal, scope: SearchScope, { seq, updatedAtUs }: SearchPosition): string {
  return writePageCursor(seal, { ...scope, list: 'JOBS' }, [seq, updatedAtUs]);
}

export function readCursor(seal: Seal, scope: SearchScope, cursor: string): SearchPosition {
  const [seq, updatedAtUs] = readPageCursor(seal, { ...scope, list: 'JOBS' }, cursor);
  const hasTime = scope.order === 'UPDATED_DESC' ? Number.isSafeInteger(updatedAtUs) : updatedAtUs === null;
  if (!Number.isSafeInteger(seq) || !hasTime) throw invalidCursor();
  return { seq: seq as number, updatedAtUs: updatedAtUs as number | null };
}
