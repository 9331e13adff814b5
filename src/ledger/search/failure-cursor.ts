import { type CursorScope, invalidCursor, readPageCursor, writePageCursor } from '../driver/page-cursor.ts';

/** Where a page of failures ended: the time of the failure in microseconds, and the job. */
export type FailurePosition = { atUs: number; seq: number };

type FailureScope = Pick<CursorScope, 'orgId' | 'filter'>;

export function writeFailureCursor(scope: FailureScope, { atUs, seq }: FailurePosition): string {
  return writePageCursor({ ...scope, list: 'FAILURES' }, [atUs, seq]);
}

export function readFailureCursor(scope: FailureScope, cursor: string): FailurePosition {
  const [atUs, seq] = readPageCursor({ ...scope, list: 'FAILURES' }, cursor);
  if (!Number.isSafeInteger(atUs) || !Number.isSafeInteger(seq)) throw invalidCursor();
  return { atUs: atUs as number, seq: seq as number };
}
