import { AppError } from '../../core/errors.ts';
import type { FeedPosition } from '../../ledger/history/read-feed.ts';

export type { FeedEvent, FeedPosition } from '../../ledger/history/read-feed.ts';

const VERSION = 2;
/** Has no record, so it points before all events of its transaction, and some of them may come again. */
const OLD_VERSION = 1;

/** Encodes a position in the feed for clients. */
export function writeFeedCursor({ txid, recordId, jobSeq, n }: FeedPosition): string {
  return Buffer.from(JSON.stringify([VERSION, txid, recordId, jobSeq, n])).toString('base64url');
}

export function readFeedCursor(cursor: string): FeedPosition {
  const [version, txid, recordId, jobSeq, n] = decode(cursor);
  if (version !== VERSION || !isCount(txid) || !isCount(recordId)) throw invalidFeedCursor();
  if (!isCount(jobSeq) || !isCount(n) || n > MAX_N) throw invalidFeedCursor();
  return { txid, recordId, jobSeq, n };
}

const MAX_N = 2 ** 31 - 1;

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function decode(cursor: string): unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    if (Array.isArray(value) && value.length === 5) return value;
    if (Array.isArray(value) && value.length === 4 && value[0] === OLD_VERSION) return [VERSION, value[1], 0, ...value.slice(2)];
  } catch {
    // All invalid cursors get the same error below.
  }
  throw invalidFeedCursor();
}

export function invalidFeedCursor(): AppError {
  const message = 'last_event_id must be the id of an event of this feed';
  const details = [{ field: 'last_event_id', code: 'INVALID_CURSOR', message }];
  return new AppError('INVALID_REQUEST', { message, details });
}
