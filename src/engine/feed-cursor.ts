import { AppError } from '../core/errors.ts';
import type { FeedPosition } from '../ledger/read-feed.ts';

export type { FeedEvent, FeedPosition } from '../ledger/read-feed.ts';

const VERSION = 1;

/** A place in the feed as clients keep it. */
export function writeFeedCursor({ txid, jobSeq, n }: FeedPosition): string {
  return Buffer.from(JSON.stringify([VERSION, txid, jobSeq, n])).toString('base64url');
}

export function readFeedCursor(cursor: string): FeedPosition {
  const [version, txid, jobSeq, n] = decode(cursor);
  if (version !== VERSION || !isCount(txid) || !isCount(jobSeq) || !isCount(n) || n > MAX_N) throw invalidFeedCursor();
  return { txid, jobSeq, n };
}

const MAX_N = 2 ** 31 - 1;

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function decode(cursor: string): unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    if (Array.isArray(value) && value.length === 4) return value;
  } catch {
    // Falls through to the one answer for every broken cursor.
  }
  throw invalidFeedCursor();
}

export function invalidFeedCursor(): AppError {
  const message = 'last_event_id must be the id of an event of this feed';
  const details = [{ field: 'last_event_id', code: 'INVALID_CURSOR', message }];
  return new AppError('INVALID_REQUEST', { message, details });
}
