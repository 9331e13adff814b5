/** The readers of the history whose position is stored in `millrace.projections`. */
export type Projection = 'rollups' | 'webhooks' | 'audit';

/**
 * A position in the history: every event below it has been read. Events are ordered by transaction, record, job and number. A page may
 * end at any event, so a large transaction or record can be read in parts.
 */
export type Position = {
  readonly txid: number;
  readonly recordId: number;
  readonly seq: number;
  readonly n: number;
};

/** Records at or after a position, using the index `records_in_feed_order`. The first condition helps the planner. */
export const recordsFrom = (txid: string, recordId: string, record = 'r'): string =>
  `${record}.txid >= ${txid} AND (${record}.txid, ${record}.id) >= (${txid}, ${recordId})`;

/** Records before a position, as the upper end of a range that `recordsFrom` begins. */
export const recordsBefore = (txid: string, recordId: string, record = 'r'): string =>
  `${record}.txid <= ${txid} AND (${record}.txid, ${record}.id) < (${txid}, ${recordId})`;

/** How many events a record has, computed from the size of its list. Counting would read the list, which may be large. */
export const eventsIn = (record = 'r'): string => `((pg_column_size(${record}.seqs) - 20) / 8)`;

/** Records that a projection has not read, or only in part. */
export function unreadRecords(projection: Projection, record = 'r'): string {
  const of = (column: string) => `(SELECT ${column} FROM millrace.positions WHERE name = '${projection}')`;
  return recordsFrom(of('txid'), of('record_id'), record);
}
