import { AppError } from '../core/errors.ts';

/** Where a page of failures ended: the time of the failure in microseconds, and the job. */
export type FailurePosition = { atUs: number; seq: number };

const MARK = 'FAILURES';
const VERSION = 1;

export function writeFailureCursor({ atUs, seq }: FailurePosition): string {
  return Buffer.from(JSON.stringify([VERSION, MARK, atUs, seq])).toString('base64url');
}

export function readFailureCursor(cursor: string): FailurePosition {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    const [version, mark, atUs, seq, ...rest] = Array.isArray(value) ? value : [];
    if (
      version === VERSION &&
      mark === MARK &&
      rest.length === 0 &&
      Number.isSafeInteger(atUs) &&
      Number.isSafeInteger(seq)
    )
      return { atUs, seq };
  } catch {
    // Falls through to the one answer for every broken cursor.
  }
  const message = 'cursor must be the nextCursor of a page of failures';
  throw new AppError('INVALID_REQUEST', { message, details: [{ field: 'cursor', code: 'INVALID_CURSOR', message }] });
}
